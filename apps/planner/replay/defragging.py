"""Moves between the arrivals of a replay: the planner is asked for room for what waits, under a budget.

The replay's state becomes a snapshot as any cluster's (pods that found no room are pending), the plan goes
through the independent checker, and its moves and the starts it makes room for are carried out at once. Not
in here: how moves are found (defrag).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from apps.planner.defrag import plan_unlock
from apps.planner.plan import Plan
from apps.planner.replay.asks import Ask
from apps.planner.replay.nodes import EmptyNode, NodeTable, Seat
from apps.planner.replay.scheduler import Scheduler
from apps.planner.snapshot import Snapshot
from apps.planner.trace import snapshot_from_rows
from apps.planner.verification import check_plan

Deadline = Callable[[], bool]


@dataclass(slots=True)
class Crowd:
    """Who runs where and who waits, by the number of arrival."""

    running: dict[int, tuple[Ask, Seat]] = field(default_factory=dict)
    waiting: dict[int, Ask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """moves: carried out. started: pods that waited and run now. started_milli: the GPUs they asked for."""

    moves: int
    started: int
    started_milli: int


def defragment(scheduler: Scheduler, crowd: Crowd, max_moves: int, deadline: Deadline) -> Outcome:
    """Raises RuntimeError where a plan does not pass the checker: then the planner is wrong."""
    snapshot = snapshot_of(scheduler.table, crowd)
    plan = plan_unlock(snapshot, workload=None, max_moves=max_moves, deadline=deadline)
    faults = check_plan(snapshot, plan)
    if faults:
        raise RuntimeError(f"the plan does not hold: {faults[0]}")
    return _carry_out(scheduler, crowd, plan)


def snapshot_of(table: NodeTable, crowd: Crowd) -> Snapshot:
    """Pods are called arrival-N, in the namespace of all traces."""
    return snapshot_from_rows(
        [_node_row(node) for node in sorted(table.nodes, key=lambda node: node.name)],
        [
            *(_pod_row(number, ask, table, seat) for number, (ask, seat) in crowd.running.items()),
            *(_pod_row(number, ask, table, None) for number, ask in crowd.waiting.items()),
        ],
        name="replay",
    )


def _carry_out(scheduler: Scheduler, crowd: Crowd, plan: Plan) -> Outcome:
    rows = {node.name: row for row, node in enumerate(scheduler.table.nodes)}
    moves = sum(_move(scheduler, crowd, _number_of(move.pod), rows[move.target]) for move in plan.moves)
    started = _start(scheduler, crowd, rows, plan)
    return Outcome(moves, len(started), sum(ask.gpu_milli for ask in started))


def _move(scheduler: Scheduler, crowd: Crowd, number: int, row: int) -> bool:
    """The planner may have meant another GPU for a part than the one taken here; what then finds no room
    stays."""
    ask, seat = crowd.running[number]
    target = _seat_on(scheduler, ask, row)
    if target is None:
        return False
    scheduler.give_back(seat, ask)
    crowd.running[number] = (ask, target)
    return True


def _start(scheduler: Scheduler, crowd: Crowd, rows: Mapping[str, int], plan: Plan) -> list[Ask]:
    """First what the plan promised, where it promised; then whoever else fits now."""
    promised = [(_number_of(start.pod), rows[start.node]) for start in plan.hand_overs]
    started = []
    for number, row in promised:
        seat = _seat_on(scheduler, crowd.waiting[number], row)
        if seat is not None:
            started.append(_let_in(crowd, number, seat))
    for number, ask in tuple(crowd.waiting.items()):
        seat = scheduler.place(ask)
        if seat is not None:
            started.append(_let_in(crowd, number, seat))
    return started


def _let_in(crowd: Crowd, number: int, seat: Seat) -> Ask:
    ask = crowd.waiting.pop(number)
    crowd.running[number] = (ask, seat)
    return ask


def _seat_on(scheduler: Scheduler, ask: Ask, row: int) -> Seat | None:
    if not scheduler.table.fits(ask, np.array([row]))[0]:
        return None
    seat = scheduler.policy.seat(ask, row, None)
    scheduler.take(seat, ask)
    return seat


def _node_row(node: EmptyNode) -> dict[str, str]:
    amounts = {"cpu_milli": node.cpu, "memory_mib": node.memory, "gpu": node.gpus}
    return {"sn": node.name, "model": node.model, **{name: str(value) for name, value in amounts.items()}}


def _pod_row(number: int, ask: Ask, table: NodeTable, seat: Seat | None) -> dict[str, str]:
    return {
        "name": f"arrival-{number}",
        "cpu_milli": str(ask.cpu),
        "memory_mib": str(ask.memory),
        "num_gpu": str(ask.gpus),
        "gpu_milli": str(ask.milli),
        "gpu_spec": "|".join(ask.models),
        "node": table.nodes[seat.row].name if seat else "",
        "gpus": ";".join(map(str, seat.devices if seat else ())),
    }


def _number_of(pod: str) -> int:
    return int(pod.rpartition("-")[2])
