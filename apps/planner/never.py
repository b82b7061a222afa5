"""What can never run here as the cluster stands: not even with every node empty, open and Ready.

Told apart from what waits, since no move, no end of another pod and no uncordoning helps it: only another
request, or another node. Conservative: what is not known (links, memory, a MIG table) is never a "never".
Not in here: whether a node takes it now (fitting), the sentences of what waits (waiting_words).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apps.planner.fitting import Fitting
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.mig.most import count_instances
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.naming import PRODUCT_LABELS, shown_model
from apps.planner.never_gang import find_gang_bound
from apps.planner.never_wishes import (
    Never,
    Question,
    check_affinity,
    check_model,
    check_selector,
    check_taints,
    check_volumes,
    name_some,
)
from apps.planner.resources import Demand, scale_text
from apps.planner.snapshot import Snapshot
from apps.planner.topology import knows_every_link, largest_group
from apps.planner.waiting_words import TOO_LARGE

Check = Callable[[Question], tuple[list[Node], Never | None]]


class NeverTable:
    """One exemplar of all nodes that no pod could tell apart while they are empty."""

    def __init__(self, fitting: Fitting) -> None:
        self.fitting = fitting
        self.snapshot: Snapshot = fitting.snapshot
        kinds: dict[tuple[object, ...], list[Node]] = {}
        for name in sorted(self.snapshot.nodes):
            node = self.snapshot.nodes[name]
            kinds.setdefault(_looks_of(fitting, node), []).append(node)
        self._exemplars = [nodes[0] for nodes in kinds.values()]
        self._counts = {nodes[0].name: len(nodes) for nodes in kinds.values()}
        self._known: dict[tuple[object, ...], tuple[list[Node], Never | None]] = {}

    def judge(self, key: str, pods: Sequence[Pod]) -> Never | None:
        """None for whatever could run some day; the first of its members that can't run speaks for a gang."""
        if not self._exemplars:
            return None
        homes: list[tuple[Pod, list[Node]]] = []
        for pod in pods:
            nodes, never = self._judge_pod(pod)
            if never is not None:
                return never
            homes.append((pod, nodes))
        if len(pods) < 2:
            return None
        gang = self.snapshot.gangs.get(key)
        needed = gang.min_members - self.snapshot.running_members[key] if gang else len(pods)
        said = find_gang_bound(self.fitting.rooms, homes, self._counts, needed)
        return Never("gang-too-large", said) if said else None

    def _judge_pod(self, pod: Pod) -> tuple[list[Node], Never | None]:
        demand = self.fitting.rooms.demand(pod)
        shape = (demand, self.fitting.signature(pod))
        if shape not in self._known:
            self._known[shape] = self._ask(pod, demand)
        return self._known[shape]

    def _ask(self, pod: Pod, demand: Demand) -> tuple[list[Node], Never | None]:
        left = self._exemplars
        for check in CHECKS:
            question = Question(pod, demand, left, len(left) < len(self._exemplars))
            left, never = check(question)
            if never is not None:
                return [], never
        return left, None


def _looks_of(fitting: Fitting, node: Node) -> tuple[object, ...]:
    room = fitting.rooms.by_node[node.name]
    return (
        fitting.node_kind(node.name),
        tuple(sorted((name, _offered(node, name)) for name in {*node.allocatable, *node.capacity})),
        (node.gpu_resource, node.model, node.shares_per_gpu, node.mig_strategy, room.by_device),
        tuple(node.labels.get(label, "") for label in (*PRODUCT_LABELS, "nvidia.com/mig.capable")),
        tuple((gpu.memory_mib, *(one.profile for one in gpu.instances)) for gpu in node.gpus),
        node.topology.links if node.topology else None,
    )


def _offered(node: Node, resource: str) -> int:
    """Broken devices stand in the capacity, and can be mended."""
    return max(node.allocatable.get(resource, 0), node.capacity.get(resource, 0))


def _check_gpus(question: Question) -> tuple[list[Node], Never | None]:
    demand = question.demand
    if not demand.gpus:
        return list(question.nodes), None
    having = [node for node in question.nodes if node.gpu_resource == demand.gpu_resource]
    if not any(_offered(node, demand.gpu_resource) or node.gpus for node in having):
        others = sorted({node.gpu_resource for node in question.nodes if node.gpu_resource})
        there = f"they have {name_some(others)}" if others else "they have no GPUs"
        said = f"No node{question.among} offers {demand.gpu_resource}; {there}."
        return [], Never("no-such-gpu", said)
    most = max(_count_gpus(node) for node in having)
    left = [node for node in having if _count_gpus(node) >= demand.gpus]
    if left:
        return left, None
    return left, Never(TOO_LARGE, f"No node{question.among} has {demand.gpus} GPUs; the largest has {most}.")


def _count_gpus(node: Node) -> int:
    return max(_offered(node, node.gpu_resource), len(node.gpus))


def _check_profiles(question: Question) -> tuple[list[Node], Never | None]:
    left = list(question.nodes)
    for profile, number in sorted(asked_profiles(question.pod).items()):
        before, left = left, [node for node in left if count_instances(node, profile) >= number]
        if not left:
            return left, Never("no-such-profile", _say_profile(profile, number, before, question.among))
    return left, None


def _say_profile(profile: str, number: int, nodes: Sequence[Node], among: str) -> str:
    most = max(count_instances(node, profile) for node in nodes)
    if most:
        return f"No node{among} can hold {number} x {profile}; the most is {most}."
    models = sorted({shown_model(node.model) for node in nodes if node.model and node.gpus})
    there = f"not {name_some(models)}" if models else "they have none"
    return f"No GPU{among} can be cut into {profile}: {there}."


def _check_memory(question: Question) -> tuple[list[Node], Never | None]:
    wanted = question.demand.memory_mib
    if wanted is None:
        return list(question.nodes), None
    left = [
        node
        for node in question.nodes
        if not node.gpus or any(gpu.memory_mib is None or gpu.memory_mib >= wanted for gpu in node.gpus)
    ]
    if left:
        return left, None
    most = max(gpu.memory_mib or 0 for node in question.nodes for gpu in node.gpus)
    said = f"No GPU{question.among} has {wanted:,} MiB of memory; the largest has {most:,} MiB."
    return left, Never("gpu-memory", said)


def _check_link(question: Question) -> tuple[list[Node], Never | None]:
    link, gpus = question.demand.link, question.demand.gpus
    if link in (None, LinkClass.NODE) or gpus < 2:
        return list(question.nodes), None
    assert link is not None
    groups = {
        node.name: largest_group(node, range(len(node.gpus)), link) if knows_every_link(node) else gpus
        for node in question.nodes
    }
    left = [node for node in question.nodes if groups[node.name] >= gpus]
    if left:
        return left, None
    most = max(groups.values())
    there = f"the largest group has {most}" if most > 1 else "no two GPUs of a node are"
    said = f"No node{question.among} has {gpus} GPUs tied by {link}, not even when it is empty; {there}."
    return left, Never("link", said)


def _check_host(question: Question) -> tuple[list[Node], Never | None]:
    left = list(question.nodes)
    for name, amount in question.demand.resources:
        if name.startswith(MIG_PREFIX):
            continue  # instances can be cut anew: what a model could offer was asked before
        before, left = left, [node for node in left if _offered(node, name) >= amount]
        if not left:
            most = max(_offered(node, name) for node in before)
            asked, there = scale_text(amount, name), scale_text(most, name)
            what = {"cpu": "CPU", "ephemeral-storage": "ephemeral storage"}.get(name, name)
            said = f"No node{question.among} has {asked} of {what}, not even when it is empty; "
            return left, Never(_code_of(name), f"{said}the most is {there}.")
    return left, None


def _code_of(resource: str) -> str:
    return {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "storage"}.get(resource, "other-resource")


CHECKS: tuple[Check, ...] = (
    check_model,
    check_selector,
    check_affinity,
    check_volumes,
    check_taints,
    _check_gpus,
    _check_profiles,
    _check_memory,
    _check_link,
    _check_host,
)
"""In this order the nodes are ruled out; the check that leaves none says why."""
