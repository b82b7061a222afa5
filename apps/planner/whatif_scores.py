"""How good a node is for a pod that it takes: packing, links, MIG; part by part, so that it can be said.

Packing is the share of the node's GPUs in use once the pod runs (of its CPU for a pod without GPUs).
A group tied by NVLink earns 20, a MIG-backed node 15 for a pod that asks for MIG; 100 is the most. GPUs
that only a PCIe switch or the host ties multiply the score by 0.7, GPUs of several NUMA nodes divide it
by 1.3 as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.planner.inventory import LinkClass
from apps.planner.resources import Demand
from apps.planner.rooms import WHOLE, Room
from apps.planner.topology import RANK, class_matrix, knows_links

MOST = 100.0
NVLINK_BONUS, MIG_BONUS = 20.0, 15.0
SWITCH_FACTOR, NUMA_COST = 0.7, 1.3


@dataclass(frozen=True, slots=True)
class ScorePart:
    """points: what it added to the score, or took from it."""

    name: str
    points: float
    words: str


def score_node(room: Room, demand: Demand, *, has_mig: bool) -> tuple[float, tuple[ScorePart, ...]]:
    """(score, its parts) for a node that takes the pod; the parts add up to the score."""
    parts = [_packing(room, demand)]
    link = _worst_link(room, demand)
    if link is LinkClass.NVLINK:
        parts.append(ScorePart("nvlink", NVLINK_BONUS, "for NVLink"))
    if has_mig:
        parts.append(ScorePart("mig", MIG_BONUS, "for MIG"))
    total = sum(part.points for part in parts)
    if total > MOST:
        parts.append(ScorePart("cap", MOST - total, "since 100 is the most"))
        total = MOST
    if link is not None and RANK[link] < RANK[LinkClass.NVLINK]:
        cut = total * (1 - SWITCH_FACTOR)
        parts.append(ScorePart("switch", -cut, "for PCIe between its GPUs (× 0.7)"))
        total -= cut
    if link in (LinkClass.NODE, LinkClass.UNKNOWN):
        cut = total - total / NUMA_COST
        parts.append(ScorePart("numa", -cut, "for crossing NUMA nodes (÷ 1.3)"))
        total -= cut
    return total, tuple(parts)


def _packing(room: Room, demand: Demand) -> ScorePart:
    if not room.by_device:
        offered = room.node.allocatable.get(room.node.gpu_resource, 0)
        used = offered - room.left.get(room.node.gpu_resource, 0) + demand.gpus
        share = used / offered if offered else 0.0
        return ScorePart("packing", MOST * min(share, 1.0), f"for {_percent(share)} of its shares in use")
    if not demand.gpus:
        return _packing_without_gpus(room, demand)
    have = WHOLE * len(room.usable)
    used = have - room.idle_milli + demand.gpu_milli
    return ScorePart("packing", MOST * used / have, f"for {_percent(used / have)} of its GPUs in use")


def _packing_without_gpus(room: Room, demand: Demand) -> ScorePart:
    """Of the MIG instances that the pod asks for, else of the CPU."""
    names = [name for name, _ in demand.resources if name.startswith("nvidia.com/mig-")] or ["cpu"]
    asked = dict(demand.resources)
    offered = {name: room.node.allocatable.get(name, 0) for name in names}
    shares = [
        (amount - room.left.get(name, 0) + asked.get(name, 0)) / amount
        for name, amount in offered.items()
        if amount
    ]
    share = min(max(shares, default=0.0), 1.0)
    what = "CPU" if names == ["cpu"] else "such instances"
    return ScorePart("packing", MOST * share, f"for {_percent(share)} of its {what} in use")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _worst_link(room: Room, demand: Demand) -> LinkClass | None:
    """Between the GPUs it would get; None for one GPU, or where nobody knows."""
    group = [at for at, _, _ in room.choose_devices(demand)]
    if len(group) < 2 or not room.located or not knows_links(room.node) or room.node.topology is None:
        return None
    classes = class_matrix(room.node.topology)
    return min((classes[a][b] for a in group for b in group if a != b), key=lambda one: RANK[one])
