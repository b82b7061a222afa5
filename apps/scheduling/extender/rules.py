"""What keeps a pod off a node, as the extender tells the scheduler: one sentence, alike for all such nodes.

The scheduler offers only nodes that passed its own filters, on a fresher picture than ours; so taints,
cordons, ports, volumes and rules between pods are left to it. Asked here: devices, the links between them,
their memory, MIG instances, what the host has left, and whether the node's facts can be relied on.
The text stands in the pod's event and is counted there by sentence, so it names no node and no amount left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from apps.planner.fitting import Reason, reasons_of
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.resources import Demand
from apps.planner.room import WHOLE, Room
from apps.planner.selectors import matches_labels, node_matches_terms
from apps.planner.topology import largest_group
from apps.planner.whatif_rules import LINK_WORDS

FIXED = frozenset(
    {
        *(Reason.NOT_READY, Reason.STALE, Reason.DRIFT, Reason.SELECTOR, Reason.AFFINITY, Reason.NO_SUCH_GPU),
        *(Reason.LINK_UNKNOWN, Reason.GPU_MEMORY_UNKNOWN, Reason.UNREGISTERED),
    }
)
"""No preemption mends these."""
ORDER = tuple(Reason)
UNKNOWN_NODE = "the node is not known to the extender yet"


@dataclass(frozen=True, slots=True)
class Refusal:
    """reason: as in `fitting`, "" for what only the extender knows. hopeless: no preemption mends it."""

    reason: str
    words: str
    hopeless: bool


def refuse(
    pod: Pod,
    demand: Demand,
    room: Room,
    *,
    spare_drifted: bool = True,
    unmet: Collection[Reason] = (),
) -> Refusal | None:
    """None where the node may take the pod. spare_drifted: keep GPU pods off nodes that show less than they
    did. unmet: what of the pod's GPURequest the node's GPUs are not."""
    found = [*_fixed(pod, demand, room.node, spare_drifted), *unmet]
    if not found and room.fits(demand):
        return None  # the short way, since most nodes are asked when a shape is new
    found += _passing(pod, demand, room)
    if not found:
        return None
    fixed = FIXED.union(unmet)
    hopeless = [reason for reason in found if reason in fixed or _never_fits(reason, demand, room)]
    reason = min(hopeless or found, key=ORDER.index)
    if reason is Reason.GPU_MEMORY and reason in unmet:
        return Refusal(str(reason), "its GPUs have less memory than the pod's GPURequest asks for", True)
    return Refusal(str(reason), word_of(reason, demand), bool(hopeless))


def _fixed(pod: Pod, demand: Demand, node: Node, spare_drifted: bool) -> list[Reason]:
    found: list[Reason] = []
    if asks_devices(demand):
        if not node.ready:
            found.append(Reason.NOT_READY)
        elif node.stale_since is not None:
            found.append(Reason.STALE)
        if node.drift and spare_drifted:
            found.append(Reason.DRIFT)
    if not matches_labels(pod.node_selector, node.labels):
        found.append(Reason.SELECTOR)
    if not node_matches_terms(node, pod.node_terms):
        found.append(Reason.AFFINITY)
    return found


def _passing(pod: Pod, demand: Demand, room: Room) -> list[Reason]:
    found: list[Reason] = [reason for reason in reasons_of(room, demand, pod) if reason is not Reason.PORT]
    if Reason.HOLDERS_UNKNOWN in found and is_all_tied(room, demand):
        found.remove(Reason.HOLDERS_UNKNOWN)
    return found


def is_all_tied(room: Room, demand: Demand) -> bool:
    """Whether any of its GPUs are tied as wanted, so that it does not matter which of them are taken."""
    assert demand.link is not None
    return largest_group(room.node, room.usable, demand.link) == len(room.usable)


def _never_fits(reason: Reason, demand: Demand, room: Room) -> bool:
    """Whether it stays short of that even when nobody else is there."""
    node = room.node
    if reason is Reason.LINK:
        assert demand.link is not None
        return largest_group(node, range(len(node.gpus)), demand.link) < demand.gpus
    if reason is Reason.GPU:
        have = len(room.usable) if room.by_device else node.allocatable.get(node.gpu_resource, 0)
        return have < demand.gpus
    if reason is Reason.GPU_MEMORY:
        return all((gpu.memory_mib or 0) < (demand.memory_mib or 0) for gpu in node.gpus)
    return reason in (Reason.CPU, Reason.MEMORY, Reason.STORAGE, Reason.MIG, Reason.OTHER) and any(
        node.allocatable.get(name, 0) < amount for name, amount in demand.resources
    )


def asks_devices(demand: Demand) -> bool:
    return bool(demand.gpus) or any("/" in name for name, _ in demand.resources)


def word_of(reason: Reason, demand: Demand) -> str:
    """As product and pod events name it."""
    link = LINK_WORDS[demand.link or LinkClass.NODE]
    if reason is Reason.LINK:
        return f"no {demand.gpus}-GPU group with the wanted bandwidth ({link})"
    if reason is Reason.LINK_UNKNOWN:
        return "no GPU topology metadata"
    if reason is Reason.HOLDERS_UNKNOWN:
        return "no GPU topology metadata for the GPUs in use"
    if reason is Reason.GPU and demand.milli < WHOLE:
        return "no GPU with enough of it left"
    if reason is Reason.GPU_MEMORY:
        return "no GPU with enough memory left: its shares would exceed it"
    return str(reason)
