"""A trace replayed: pods arrive one by one, a policy places each or it is dropped; what came of it.

Pure: the caller reads files and clocks. Not in here: the policies' points, moves between arrivals
(defragging).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from apps.planner.replay.arrivals import Draw, arrive
from apps.planner.replay.asks import Ask, workload_of
from apps.planner.replay.defragging import Crowd, Deadline, defragment
from apps.planner.replay.demand_fit import DemandFit
from apps.planner.replay.fgd import Fgd, FgdExact
from apps.planner.replay.nodes import EmptyNode, NodeTable
from apps.planner.replay.policies import SIMPLE, Policy
from apps.planner.replay.scheduler import Scheduler
from apps.planner.replay.usable import Usable
from apps.planner.workload import Workload

ALL: Sequence[type[Policy]] = (*SIMPLE, Fgd, FgdExact, DemandFit)
POLICIES: Mapping[str, type[Policy]] = {policy.name: policy for policy in ALL}
MARKS = (90, 95, 100, 110, 130)
"""Per cent of the GPU capacity that have been asked for when a state is noted; the last one ends the
replay."""
MOST_DECISIONS = 5_000_000


def endless() -> bool:
    """A deadline that never comes."""
    return False


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """file_order: the pods as they stand in the file, once, and ties go to the first node of the file.
    defrag_every: after so many arrivals the planner makes room for what waits, with max_moves moves at most;
    0 is never."""

    policy: str
    seed: int = 0
    file_order: bool = False
    defrag_every: int = 0
    max_moves: int = 0


@dataclass(frozen=True, slots=True)
class Noted:
    """A state, in per cent: GPUs allocated of all, fragmented of what is idle, fragmented of all."""

    allocated: float
    ratio: float
    amount: float


@dataclass(slots=True)
class Replay:
    """noted: by mark; a mark that was not reached is missing. numerator: Σ counts × F in milli-GPU at the
    end. failed: pods that do not run at the end. nodes: in the order that breaks ties, the rows of the seats
    in `crowd`."""

    request: ReplayRequest
    capacity_milli: int
    weight_total: int
    noted: dict[int, Noted] = field(default_factory=dict)
    decisions: int = 0
    failed: int = 0
    moves: int = 0
    arrived_milli: int = 0
    used_milli: int = 0
    numerator: int = 0
    end: Noted = Noted(0.0, 0.0, 0.0)
    nodes: tuple[EmptyNode, ...] = ()
    crowd: Crowd = field(default_factory=Crowd)


def replay_trace(
    nodes: Sequence[EmptyNode],
    asks: Sequence[Ask],
    request: ReplayRequest,
    new_deadline: Callable[[], Deadline] = lambda: endless,
) -> Replay:
    """new_deadline: a deadline for each search for moves. Raises ValueError, one sentence, where the request
    or the trace makes no replay."""
    policy_class = POLICIES.get(request.policy)
    if policy_class is None:
        raise ValueError(f"there is no policy {request.policy!r}; there are {', '.join(POLICIES)}")
    draw = Draw(request.seed)
    table = NodeTable(nodes if request.file_order else draw.shuffled(nodes))
    workload = workload_of(asks)
    _refuse_endless(table, asks, request)
    scheduler = Scheduler(table, policy_class(table, workload), Draw(f"policy {request.seed}"))
    replay = Replay(request, table.capacity_milli, workload.weight_total, nodes=table.nodes)
    for ask in order_arrivals(asks, request, draw, table.capacity_milli):
        _arrive(replay, scheduler, ask)
        if request.defrag_every and replay.decisions % request.defrag_every == 0 and replay.crowd.waiting:
            _defragment(replay, scheduler, new_deadline())
        _note_marks(replay, table, workload)
    replay.failed = len(replay.crowd.waiting)
    replay.end, replay.numerator = _measure(table, workload)
    return replay


def _arrive(replay: Replay, scheduler: Scheduler, ask: Ask) -> None:
    seat = scheduler.place(ask)
    replay.decisions += 1
    replay.arrived_milli += ask.gpu_milli
    if seat is None:
        replay.crowd.waiting[replay.decisions] = ask
    else:
        replay.crowd.running[replay.decisions] = (ask, seat)
        replay.used_milli += ask.gpu_milli


def _defragment(replay: Replay, scheduler: Scheduler, deadline: Deadline) -> None:
    outcome = defragment(scheduler, replay.crowd, replay.request.max_moves, deadline)
    replay.moves += outcome.moves
    replay.used_milli += outcome.started_milli


def order_arrivals(asks: Sequence[Ask], request: ReplayRequest, draw: Draw, capacity: int) -> Iterator[Ask]:
    """As they arrive until enough has been asked for. draw: after it has given the order of the nodes."""
    if request.file_order:
        yield from asks
        return
    arrived = 0
    for ask in arrive(asks, draw):
        yield ask
        arrived += ask.gpu_milli
        if arrived * 100 >= MARKS[-1] * capacity:
            return


def _refuse_endless(table: NodeTable, asks: Sequence[Ask], request: ReplayRequest) -> None:
    if not len(table):
        raise ValueError("there are no nodes: nothing can be placed")
    if not asks:
        raise ValueError("there are no pods: nothing can be placed")
    if request.file_order:
        return
    asked = sum(ask.gpu_milli for ask in asks)
    if not table.capacity_milli or not asked:
        lacking = "pod asks for a GPU" if table.capacity_milli else "node has a GPU"
        raise ValueError(f"no {lacking}: arrivals cannot reach {MARKS[-1]} % of the GPUs; use --file-order")
    expected = MARKS[-1] * table.capacity_milli * len(asks) // (100 * asked)
    if expected > MOST_DECISIONS:
        raise ValueError(
            f"about {expected} pods would have to arrive to ask for {MARKS[-1]} % of the GPUs, "
            f"more than {MOST_DECISIONS}: give fewer nodes, or use --file-order"
        )


def _note_marks(replay: Replay, table: NodeTable, workload: Workload) -> None:
    reached = len(replay.noted)
    while reached < len(MARKS) and replay.arrived_milli * 100 >= MARKS[reached] * replay.capacity_milli > 0:
        replay.noted[MARKS[reached]], _ = _measure(table, workload)
        reached += 1


def _measure(table: NodeTable, workload: Workload) -> tuple[Noted, int]:
    numerator = Usable(table, workload).numerator
    idle, capacity = int(table.idle.sum()), table.capacity_milli
    weight = workload.weight_total
    noted = Noted(
        allocated=100 * (capacity - idle) / capacity if capacity else 0.0,
        ratio=100 * numerator / (weight * idle) if weight and idle else 0.0,
        amount=100 * numerator / (weight * capacity) if weight and capacity else 0.0,
    )
    return noted, numerator
