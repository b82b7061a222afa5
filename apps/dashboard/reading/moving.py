"""Before and after of a plan, node by node: who leaves, who arrives, and where it would sit.

The kubelet chooses the devices. The seats after a move are the best group that would be free,
drawn as an example; the number of GPUs is what the plan promises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.dashboard.reading.nodes import NodeView, view_node
from apps.dashboard.reading.occupancy import Bar, Occupancy, asked_milli, split_bars
from apps.planner.inventory import Node, Pod
from apps.planner.plan import HandOver, Move, Plan, Preemption
from apps.planner.snapshot import Snapshot
from apps.planner.topology import best_group


@dataclass(frozen=True, slots=True)
class Stage:
    """One node that the plan changes. after: None when the node is gone from the snapshot."""

    view: NodeView
    after: Occupancy
    is_freed: bool
    note: str


def stage_moves(snapshot: Snapshot, plan: Plan) -> list[Stage]:
    """Freed nodes first, then other sources, then targets; nodes that the snapshot lacks are left out."""
    freed = [name for name in plan.freed_nodes if name in snapshot.nodes]
    lost = [one.node for one in plan.preemptions]
    order = dict.fromkeys([*freed, *(m.source for m in plan.moves), *lost, *(m.target for m in plan.moves)])
    leaving: dict[str, list[Move | Preemption]] = defaultdict(list)
    coming: dict[str, list[Move]] = defaultdict(list)
    for move in plan.moves:
        leaving[move.source].append(move)
        coming[move.target].append(move)
    for one in plan.preemptions:
        leaving[one.node].append(one)
    heirs = {hand.node: _heir(snapshot, hand) for hand in plan.hand_overs}
    stages = []
    for name in order:
        node = snapshot.nodes.get(name)
        if node is None:
            continue
        view = view_node(snapshot, node)
        after = _seats_after(snapshot, view, leaving[name], coming[name])
        is_freed = name in plan.freed_nodes
        stages.append(Stage(view, after, is_freed, _note(view, after, is_freed, heirs.get(name, ""))))
    return stages


def _heir(snapshot: Snapshot, hand: HandOver) -> str:
    """Who gets the room, by the name that people know."""
    pod = snapshot.pods.get(hand.pod_uid)
    if pod is None:
        return hand.pod.partition("/")[2] or hand.pod
    return pod.gang.partition("/")[2] or snapshot.workload_name(pod)


def _note(view: NodeView, after: Occupancy, is_freed: bool, heir: str) -> str:
    if is_freed:
        return f"free, then {heir}" if heir else "whole node free"
    if not after.free_count:
        return "full"
    if after.free_count == view.free:
        return f"{after.free_count} free, as before"
    return f"{after.free_count} free, was {view.free}"


def _seats_after(
    snapshot: Snapshot, view: NodeView, leaving: Sequence[Move | Preemption], coming: Sequence[Move]
) -> Occupancy:
    gone = {move.pod_uid for move in leaving}
    seats = view.seats
    bars = [bar for bar in seats.bars if bar.pod_uid not in gone]
    parts = {
        place: tuple(replace(p, pod_uid="") if p.pod_uid in gone else p for p in pieces)
        for place, pieces in seats.parts.items()
    }
    # A shared GPU that nobody uses any more is a whole one again; a MIG GPU stays cut.
    parts = {k: v for k, v in parts.items() if k in seats.cut_by_mig or any(p.pod_uid for p in v)}
    unplaced = [entry for entry in seats.unplaced if entry[0] not in gone]
    taken = {place for bar in bars for place in bar.positions} | set(parts) | set(seats.bad)
    free = [place for place in range(seats.size) if place not in taken]
    for move in coming:
        pod = snapshot.pods.get(move.pod_uid)
        group = _seat(view.node, pod, free, move.gpus) if not unplaced else None
        if group:
            bars += split_bars(view.node, move.pod_uid, list(group))
            free = [place for place in free if place not in group]
        elif pod is not None and asked_milli(view.node, pod):
            unplaced.append((move.pod_uid, asked_milli(view.node, pod)))
    return _finish(seats, bars, parts, unplaced, free)


def _seat(node: Node, pod: Pod | None, free: Sequence[int], gpus: int) -> tuple[int, ...] | None:
    if not gpus or pod is None or pod.gpu_milli < 1000:
        return None
    return best_group(node, free, gpus, pod.link) or best_group(node, free, gpus, None)


def _finish(
    seats: Occupancy, bars: list[Bar], parts: dict, unplaced: list[tuple[str, int]], free: list[int]
) -> Occupancy:
    hidden = -(-sum(milli for _, milli in unplaced) // 1000)
    return replace(
        seats,
        bars=tuple(sorted(bars, key=lambda bar: bar.positions)),
        parts=parts,
        unplaced=tuple(unplaced),
        free=() if unplaced or seats.withheld else tuple(free),
        unsure=tuple(free) if unplaced or seats.withheld else (),
        free_count=max(0, len(free) - hidden - seats.withheld - seats.lost),
    )
