"""What if pods of this shape came: every node's verdict, rule by rule, ranked; and how many fit now.

The rules are `fitting`'s, their words `whatif_rules`, the score of the nodes that take the pod
`whatif_scores`. What would have to move to make room is asked of the planner's own goals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.planner.defrag import Deadline, plan_unlock
from apps.planner.fitting import Fitting
from apps.planner.gpu_wishes import has_memory, is_model
from apps.planner.inventory import Gang, LinkClass, Node, Pod, Toleration
from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.nodes import WHOLE_GPU, asked_profiles
from apps.planner.mig.planning import plan_mig
from apps.planner.plan import Plan
from apps.planner.rooms import Room, Rooms
from apps.planner.snapshot import Snapshot
from apps.planner.whatif_rules import FIXED, LINK_WORDS, RuleVerdict, Wish, judge_node
from apps.planner.whatif_scores import ScorePart, score_node

NAMESPACE, NAME = "what-if", "what-if"
MARK = "defrag.gpu.internal/what-if"
MIB = 2**20
MOST_COUNTED = 1000
"""Pods of one shape are counted up to here on one node."""
MOST_PODS = 512
MOST_GPUS, MOST_MIB, MOST_MILLICORES, MOST_INSTANCES = 64, 64 * 2**20, 10_000_000, 56
"""What can be asked for: of one pod, and of memory (64 TiB)."""
MIG_PROFILE = r"[0-9]{1,2}g\.[0-9]{1,4}gb([+-][a-z.]{1,12})?"
LINKS = {str(link): LINK_WORDS[link] for link in LinkClass if link is not LinkClass.UNKNOWN}
"""What can be wanted between a pod's GPUs, with its words."""
FIRST = 2_000_000_000
"""Priority of pods that are only asked about, where layouts are planned for all that waits."""


@dataclass(frozen=True, slots=True)
class Shape:
    """count: pods. gpus: per pod, of each `milli` thousandths (1000 is a whole one). link: wanted
    between them. model: as the nodes call it, or its family ("A100"); "" for any. memory_mib: GPU
    memory that each GPU must have. cpu_milli, host_memory_mib: per pod. mig: instances per pod, by
    profile. A pod of this shape tolerates the taint that is named like the GPU resource it asks for,
    as the admission plugin ExtendedResourceToleration lets it, and no other."""

    count: int = 1
    gpus: int = 0
    milli: int = 1000
    link: LinkClass | None = None
    model: str = ""
    memory_mib: int = 0
    cpu_milli: int = 0
    host_memory_mib: int = 0
    mig: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One node's answer. rules: in the order in which they are asked, those that are met too.

    pods: how many of the shape would fit here now, one after the other (a lower bound where several
    link groups share a node). score: 0 to 100, 0 for a node that does not take it.
    """

    node: str
    fits: bool
    rules: tuple[RuleVerdict, ...]
    score: float
    score_parts: tuple[ScorePart, ...]
    pods: int
    free_gpus: int

    @property
    def broken(self) -> tuple[RuleVerdict, ...]:
        return tuple(rule for rule in self.rules if not rule.is_met)


def rank_nodes(snapshot: Snapshot, shape: Shape) -> tuple[Verdict, ...]:
    """The best node first: those that take it by score, then those that lack room, then those that could
    never take it: a fixed rule keeps them from it, or they are too small even when empty."""
    return _rank(snapshot, pod_of(snapshot, shape), Wish(shape.model, shape.memory_mib))


def rank_for_pod(snapshot: Snapshot, pod: Pod) -> tuple[Verdict, ...]:
    """The same for a pod that waits, with all its own selectors, tolerations and affinities."""
    return _rank(snapshot, pod, Wish())


def count_fitting(verdicts: tuple[Verdict, ...]) -> int:
    """How many pods of the shape would fit in the cluster now."""
    return sum(verdict.pods for verdict in verdicts)


def room_for(snapshot: Snapshot, shape: Shape, *, max_moves: int, deadline: Deadline) -> Plan:
    """The moves (or new MIG layouts) that would let all pods of the shape start together, if any."""
    pods = _pods_of(snapshot, shape)
    key = f"{NAMESPACE}/{NAME}"
    gangs = {**snapshot.gangs, key: Gang(key, len(pods))} if len(pods) > 1 else snapshot.gangs
    asked = replace(snapshot, gangs=gangs, nodes=_marked(snapshot, Wish(shape.model, shape.memory_mib)))
    if shape.mig:
        running = {uid: pod for uid, pod in snapshot.pods.items() if not pod.is_pending}
        asked = replace(asked, pods=running)
        return plan_mig(asked.with_pods(pods), max_moves=max_moves, deadline=deadline)
    plan = plan_unlock(asked.with_pods(pods), workload=key, max_moves=max_moves, deadline=deadline)
    return _without_mark(plan, shape)


def pod_of(snapshot: Snapshot, shape: Shape) -> Pod:
    """A pod that nobody has made, of this shape."""
    resource = gpu_resource_for(snapshot, shape.model)
    requests: dict[str, int] = {}
    if shape.gpus:
        requests[resource] = shape.gpus
    if shape.cpu_milli:
        requests["cpu"] = shape.cpu_milli
    if shape.host_memory_mib:
        requests["memory"] = shape.host_memory_mib * MIB
    for profile, number in shape.mig:
        requests[profile_resource(profile)] = number
    devices = ({resource} if shape.gpus else set()) | ({WHOLE_GPU} if shape.mig else set())
    return Pod(
        uid="what-if",
        namespace=NAMESPACE,
        name=NAME,
        requests=requests,
        gpu_milli=shape.milli if shape.gpus else 1000,
        link=shape.link,
        tolerations=tuple(Toleration(key=name, operator="Exists") for name in sorted(devices)),
        priority=FIRST,
        workload="what-if",
        owner_kind="Job",
    )


def gpu_resource_for(snapshot: Snapshot, model: str) -> str:
    """The resource by which GPUs of that model are asked here: of its nodes, else of most nodes."""
    nodes = [node for node in snapshot.nodes.values() if node.gpu_resource]
    named = [node for node in nodes if is_model(node, model)] or nodes
    found = Counter(node.gpu_resource for node in named)
    return min(found, key=lambda name: (-found[name], name)) if found else "nvidia.com/gpu"


def _pods_of(snapshot: Snapshot, shape: Shape) -> tuple[Pod, ...]:
    """All of them, as a gang where there are several; they choose the nodes that `_marked` marks."""
    sample = pod_of(snapshot, shape)
    if shape.model or shape.memory_mib:
        sample = replace(sample, node_selector={MARK: "yes"})
    number = min(max(shape.count, 1), MOST_PODS)
    if number == 1:
        return (sample,)
    gang = f"{NAMESPACE}/{NAME}"
    return tuple(replace(sample, uid=f"what-if-{at}", name=f"{NAME}-{at}", gang=gang) for at in range(number))


def _without_mark(plan: Plan, shape: Shape) -> Plan:
    """No node has the mark: people never set that label, so it is told what they asked for."""
    if not any(MARK in one.reason for one in plan.refused):
        return plan
    model = f" of the model {shape.model}" if shape.model else ""
    memory = f" with {shape.memory_mib:,} MiB each" if shape.memory_mib else ""
    said = f"No node has GPUs{model}{memory}."
    refused = tuple(replace(one, reason=said) if MARK in one.reason else one for one in plan.refused)
    return replace(plan, refused=refused, sentence=said if MARK in plan.sentence else plan.sentence)


def _marked(snapshot: Snapshot, wish: Wish) -> Mapping[str, Node]:
    """The nodes, with a label on those whose GPUs are what the shape wishes for."""
    if not wish.model and not wish.memory_mib:
        return snapshot.nodes
    return {
        name: replace(node, labels={**node.labels, MARK: "yes"})
        if is_model(node, wish.model) and has_memory(node, wish.memory_mib)
        else node
        for name, node in snapshot.nodes.items()
    }


def _rank(snapshot: Snapshot, pod: Pod, wish: Wish) -> tuple[Verdict, ...]:
    rooms = Rooms(snapshot)
    fitting = Fitting(rooms)
    verdicts = [_judge(fitting, pod, snapshot.nodes[name], wish) for name in rooms.by_node]
    instances = [profile_resource(profile) for profile in asked_profiles(pod)]
    demand = rooms.demand(pod)
    # A node can be cut anew for instances that it does not offer yet; nothing else grows.
    least = [(name, amount) for name, amount in demand.resources if name not in instances]
    least += [(demand.gpu_resource, demand.gpus)] if demand.gpus else []

    def rank(verdict: Verdict) -> tuple[object, ...]:
        if verdict.fits:
            return (0, -verdict.score, verdict.node)
        offered = snapshot.nodes[verdict.node].allocatable
        is_small = any(offered.get(name, 0) < amount for name, amount in least)
        is_hopeless = is_small or any(rule.rule in FIXED for rule in verdict.broken)
        near = sum(offered.get(name, 0) for name in instances) if instances else verdict.free_gpus
        return (1, is_hopeless, len(verdict.broken), -near, verdict.node)

    return tuple(sorted(verdicts, key=rank))


def _judge(fitting: Fitting, pod: Pod, node: Node, wish: Wish) -> Verdict:
    room, demand = fitting.rooms.by_node[node.name], fitting.rooms.demand(pod)
    rules = judge_node(fitting, pod, node, wish, is_model=is_model(node, wish.model))
    fits = all(rule.is_met for rule in rules)
    score, parts = score_node(room, demand, has_mig=bool(asked_profiles(pod))) if fits else (0.0, ())
    many = not fitting.needs_neighbours(pod)
    pods = (count_more(room, fitting.rooms, pod) if many else 1) if fits else 0
    free = max(room.free_gpus if room.by_device else room.left.get(node.gpu_resource, 0), 0)
    return Verdict(node.name, fits, rules, score, parts, pods, free)


def count_more(room: Room, rooms: Rooms, pod: Pod) -> int:
    """How many pods like this one the node takes one after the other. Nothing is changed."""
    demand = rooms.demand(pod)
    most = min([MOST_COUNTED, *(room.left.get(name, 0) // amount for name, amount in demand.resources)])
    most = min(most, room.left.get("pods", most), 1 if demand.ports else most)
    if not demand.gpus:
        return max(most, 0)
    if not room.by_device:
        return max(min(most, room.left.get(demand.gpu_resource, 0) // demand.gpus), 0)
    trial = room.copy()
    if room.counts_units:
        most = min(most, room.left.get(demand.gpu_resource, 0) // demand.gpus)
    number = 0
    while number < most and trial.fits(demand):
        trial.shift(trial.choose_devices(demand))
        number += 1
        if not trial.located and demand.link not in (None, LinkClass.NODE):
            break
    return number
