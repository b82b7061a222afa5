"""Every rule's verdict on one pod and one node, in words, whether it is met or not.

The verdicts are `fitting`'s; here they get this node's numbers. Two rules are only asked of shapes
that nobody has made yet: the model, and the memory that each GPU must have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apps.planner.devices import Source
from apps.planner.fitting import Fitting, Reason
from apps.planner.gpu_wishes import has_memory
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.mig.use import single_profile
from apps.planner.movability import DEFAULT_SCHEDULER
from apps.planner.naming import shown_model
from apps.planner.resources import Demand, scale_text
from apps.planner.rooms import WHOLE, Room
from apps.planner.selectors import untolerated_taints
from apps.planner.topology import knows_every_link, knows_links, largest_group
from apps.planner.wording import count

LINK_WORDS = {
    LinkClass.NVLINK: "NVLink",
    LinkClass.PCIE_SWITCH: "one PCIe switch",
    LinkClass.NUMA: "one NUMA node",
    LinkClass.NODE: "one node",
    LinkClass.UNKNOWN: "an unknown link",
}


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """rule: its short name ("ready", "gpus", "link", …). words: one sentence with this node's numbers."""

    rule: str
    is_met: bool
    words: str


FIXED = frozenset(
    {
        *("ready", "cordon", "taints", "selector", "affinity", "scheduler", "volume"),
        *("model", "gpu-memory", "device"),
    }
)
"""Rules that no move of pods can change."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a shape asks for beside a pod's own requests. memory_mib: of each GPU; 0 for any."""

    model: str = ""
    memory_mib: int = 0


def judge_node(
    fitting: Fitting, pod: Pod, node: Node, wish: Wish, *, is_model: bool
) -> tuple[RuleVerdict, ...]:
    """All rules that apply, in the order in which they are asked."""
    reasons = frozenset(fitting.reasons(pod, node))
    room, demand = fitting.rooms.by_node[node.name], fitting.rooms.demand(pod)
    return (
        *_standing(pod, node, reasons),
        *_wished(node, wish, is_model),
        *_devices(room, demand, reasons),
        *_mig(room, pod),
        *_host(room, demand, reasons),
        *_neighbours(fitting, pod, reasons),
    )


def _standing(pod: Pod, node: Node, reasons: frozenset[Reason]) -> Iterator[RuleVerdict]:
    """Readiness, cordon, taints, and what the pod itself says about nodes."""
    if Reason.NOT_READY in reasons:
        why = f" ({node.ready_reason})" if node.ready_reason else ""
        yield RuleVerdict("ready", False, f"The node is not Ready{why}.")
    elif Reason.STALE in reasons:
        yield RuleVerdict("ready", False, "The node has not reported lately; its facts are stale.")
    else:
        yield RuleVerdict("ready", True, "The node is Ready.")
    cordoned = Reason.CORDONED in reasons
    yield RuleVerdict("cordon", not cordoned, "The node is cordoned." if cordoned else "Not cordoned.")
    taints = untolerated_taints(pod, node.taints)
    if taints:
        words = ", ".join(f"{one.key}={one.value}:{one.effect}" for one in taints)
        yield RuleVerdict("taints", False, f"Not tolerated: {words}.")
    else:
        yield RuleVerdict("taints", True, "All its taints are tolerated." if node.taints else "No taints.")
    if pod.node_selector:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(pod.node_selector.items()))
        yield _plain("selector", Reason.SELECTOR, reasons, f"Its node selector wants {wanted}")
    if pod.node_terms:
        yield _plain("affinity", Reason.AFFINITY, reasons, "Its node affinity")
    if pod.scheduler != DEFAULT_SCHEDULER:
        words = f"It belongs to the scheduler {pod.scheduler}, whose choice is not foreseen here."
        yield RuleVerdict("scheduler", False, words)
    if Reason.VOLUME in reasons:
        yield RuleVerdict("volume", False, "Its volume is pinned to another node.")


def _plain(rule: str, reason: Reason, reasons: frozenset[Reason], what: str) -> RuleVerdict:
    is_met = reason not in reasons
    return RuleVerdict(rule, is_met, f"{what}: {'matches' if is_met else 'does not match'}.")


def _wished(node: Node, wish: Wish, is_model: bool) -> Iterator[RuleVerdict]:
    if wish.model:
        has = shown_model(node.model) or "GPUs of a model that nobody tells"
        yield RuleVerdict("model", is_model, f"Has {has}." if node.gpus else "Has no GPUs.")
    if wish.memory_mib:
        known = [gpu.memory_mib for gpu in node.gpus if gpu.memory_mib is not None]
        if not known:
            words = "How much memory its GPUs have is not known." if node.gpus else "Has no GPUs."
            yield RuleVerdict("gpu-memory", False, words)
        else:
            words = f"Each GPU has {min(known):,} MiB, {wish.memory_mib:,} MiB wanted."
            yield RuleVerdict("gpu-memory", has_memory(node, wish.memory_mib), words)


def _devices(room: Room, demand: Demand, reasons: frozenset[Reason]) -> Iterator[RuleVerdict]:
    if Reason.CLAIMS in reasons:
        yield RuleVerdict(
            "device", False, "Its devices come by resource claims: only the scheduler can match them."
        )
    if not demand.gpus:
        return
    if demand.gpu_resource == room.node.gpu_resource and gives_by_claim_alone(room.node):
        gpus = count(len(room.node.gpus), "GPU")
        words = f"Offers no {demand.gpu_resource}: resource claims give out its {gpus}; only the scheduler "
        words += "can match them."
        yield RuleVerdict("device", False, words)
        return
    is_offered = Reason.NO_SUCH_GPU not in reasons
    yield RuleVerdict("device", is_offered, f"Offers {'' if is_offered else 'no '}{demand.gpu_resource}.")
    if not is_offered:
        return
    yield RuleVerdict("gpus", Reason.GPU not in reasons, _free_words(room, demand))
    if demand.link is not None:
        yield _link(room, demand, reasons)


def gives_by_claim_alone(node: Node) -> bool:
    """Its GPUs are given to resource claims, and the kubelet offers no number of them."""
    by_claim = node.claimable or any(one.source is Source.DRA for one in node.holdings or ())
    offers = node.allocatable.get(node.gpu_resource, 0) or node.capacity.get(node.gpu_resource, 0)
    return bool(node.gpus) and by_claim and not offers


def _free_words(room: Room, demand: Demand) -> str:
    if not room.by_device:
        left = max(room.left.get(demand.gpu_resource, 0), 0)
        profile, shares = single_profile(room.node), room.node.shares_per_gpu
        each = f"each a MIG instance {profile}" if profile else f"each one of {shares} turns on a GPU"
        return f"{left} of {demand.gpu_resource} free, {each}; {demand.gpus} wanted."
    if demand.milli < WHOLE:
        best = max((room.gpu_left[at] for at in room.usable), default=0)
        return f"The emptiest GPU has {best / 10:g} % left, {demand.milli / 10:g} % wanted."
    return f"{room.free_gpus} of {len(room.node.gpus)} GPUs free, {demand.gpus} wanted."


def _link(room: Room, demand: Demand, reasons: frozenset[Reason]) -> RuleVerdict:
    wanted = demand.link or LinkClass.NODE
    word = LINK_WORDS[wanted]
    if wanted is LinkClass.NODE:
        return RuleVerdict("link", True, "Any GPUs of one node will do.")
    if not knows_links(room.node):
        return RuleVerdict("link", False, f"No GPU topology metadata: whether {word} ties them is unknown.")
    free = room.free_positions()
    if not room.located and len(free) < len(room.usable):
        words = f"Which GPUs are taken is not known, so a group tied by {word} cannot be promised."
        return RuleVerdict("link", Reason.HOLDERS_UNKNOWN not in reasons and room.has_group(demand), words)
    group = largest_group(room.node, free, wanted)
    words = f"The largest free group tied by {word} has {count(group, 'GPU')}, {demand.gpus} wanted."
    if group < demand.gpus and not knows_every_link(room.node):
        words += " Some links of this node are not known."
    return RuleVerdict("link", group >= demand.gpus, words)


def _mig(room: Room, pod: Pod) -> Iterator[RuleVerdict]:
    for profile, number in sorted(asked_profiles(pod).items()):
        name = profile_resource(profile)
        offered = room.node.allocatable.get(name, 0)
        idle = max(room.left.get(name, 0), 0)
        have = f"{idle} of {offered} instances {profile} idle" if offered else f"Offers no {profile}"
        yield RuleVerdict("mig", idle >= number, f"{have}, {number} wanted.")


def _host(room: Room, demand: Demand, reasons: frozenset[Reason]) -> Iterator[RuleVerdict]:
    rules = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "storage"}
    for name, amount in demand.resources:
        if name.startswith(MIG_PREFIX):
            continue
        left = room.left.get(name, 0)
        words = f"{scale_text(max(left, 0), name)} left, {scale_text(amount, name)} wanted."
        said = words if name in rules else f"{name}: {words}"
        yield RuleVerdict(rules.get(name, "resource"), left >= amount, said)
    if room.pods_left is not None:
        words = f"Room for {count(max(room.pods_left, 0), 'more pod')}."
        yield RuleVerdict("pods", room.pods_left >= 1, words)
    if demand.ports:
        taken = ", ".join(str(port) for port in demand.ports if room.ports[port])
        yield RuleVerdict("ports", not taken, f"Host port {taken} is taken." if taken else "Host ports free.")


def _neighbours(fitting: Fitting, pod: Pod, reasons: frozenset[Reason]) -> Iterator[RuleVerdict]:
    """Rules between pods: asked only where one speaks of this pod."""
    if not fitting.needs_neighbours(pod):
        return
    asked = (
        ("pod-affinity", Reason.POD_AFFINITY, "Pod affinity", bool(pod.pod_affinity)),
        ("pod-anti-affinity", Reason.POD_ANTI_AFFINITY, "Pod anti-affinity", True),
        ("spread", Reason.SPREAD, "Topology spread", bool(pod.spread)),
    )
    for rule, reason, word, applies in asked:
        if applies or reason in reasons:
            is_met = reason not in reasons
            yield RuleVerdict(rule, is_met, f"{word} {'holds' if is_met else 'forbids it'}.")
