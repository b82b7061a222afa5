"""A cluster in time: jobs arrive, wait, run, end; a policy places them, plans make room, and who is in the
way of a more important one is preempted. Discrete events over the planner's own code (apps/planner/replay).

All waiting jobs are tried again after each event, by rank and age, as kube-scheduler does; a job that is
interrupted goes on from its last checkpoint. Not in here: which jobs come (published_comparisons).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from apps.planner.defrag import plan_unlock
from apps.planner.plan import Plan
from apps.planner.replay.arrivals import Draw
from apps.planner.replay.asks import Ask, workload_of
from apps.planner.replay.defragging import Crowd, snapshot_of
from apps.planner.replay.nodes import EmptyNode, Ints, NodeTable, Seat
from apps.planner.replay.policies import Points, Policy
from apps.planner.replay.replaying import endless
from apps.planner.replay.scheduler import Scheduler
from apps.planner.verification import check_plan
from apps.planner.workload import Workload

RESTART_SECONDS = 47.0
CHECKPOINT_SECONDS = 1800.0
PLAN_SECONDS = 300.0
MOST_MOVES = 8
ARRIVES, ENDS, PLANS, ENOUGH = range(4)


class LeastAllocated(Policy):
    """What a stock kube-scheduler does: NodeResourcesFit with LeastAllocated over CPU and memory (it counts
    no GPUs unless told to), so that pods spread. Equal points go by the fixed order of the nodes."""

    name = "least-allocated"

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        self.cpu, self.memory = np.maximum(table.cpu, 1), np.maximum(table.memory, 1)
        self.cpu, self.memory = self.cpu.copy(), self.memory.copy()

    def score(self, ask: Ask, rows: Ints) -> Points:
        cpu = (self.table.cpu[rows] - ask.cpu) * 100 // self.cpu[rows]
        memory = (self.table.memory[rows] - ask.memory) * 100 // self.memory[rows]
        return Points((cpu + memory) // 2)


@dataclass(slots=True)
class Job:
    """seconds: of work. done: of it, kept by checkpoints. begun: when it last began to run, None while it
    waits. run: counts its runs, so that the end of an earlier one is known."""

    number: int
    ask: Ask
    arrived: float
    seconds: float
    priority: int = 0
    done: float = 0.0
    begun: float | None = None
    started: float | None = None
    run: int = 0
    interruptions: int = 0


@dataclass(frozen=True, slots=True)
class Ways:
    """How a cluster is run. plans: whether plans make room: every PLAN_SECONDS for the largest job that
    waits, and for a more important one at once. preempts: whether lower ranks may lose their place."""

    policy: type[Policy]
    plans: bool = False
    preempts: bool = False


@dataclass
class Scene:
    """One run. fragmented: (seconds, GPUs that FGD counts as fragmented), to be weighted by time."""

    nodes: Sequence[EmptyNode]
    jobs: Sequence[Job]
    ways: Ways
    horizon: float
    seed: int = 0
    moves: int = 0
    preempted: int = 0
    now: float = 0.0
    fragmented: float = 0.0
    crowd: Crowd = field(default_factory=Crowd)
    _events: list[tuple[float, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = NodeTable(Draw(self.seed).shuffled(self.nodes))
        self.workload = workload_of([job.ask for job in self.jobs])
        self.scheduler = Scheduler(
            self.table, self.ways.policy(self.table, self.workload), Draw(f"policy {self.seed}")
        )
        self.by_number = {job.number: job for job in self.jobs}

    def run(self) -> None:
        self._events = [(job.arrived, ARRIVES, job.number, 0) for job in self.jobs]
        if self.ways.plans:
            steps = int(self.horizon / PLAN_SECONDS)
            self._events += [(at * PLAN_SECONDS, PLANS, 0, 0) for at in range(1, steps + 1)]
        self._events.append((self.horizon, ENOUGH, 0, 0))
        heapq.heapify(self._events)
        while self._events:
            at, kind, number, run = heapq.heappop(self._events)
            self.fragmented += (at - self.now) * self._fragmented_gpus() / self.horizon
            self.now = at
            if kind == ENOUGH:
                return
            self._happen(kind, number, run)

    def _happen(self, kind: int, number: int, run: int) -> None:
        if kind == ARRIVES:
            job = self.by_number[number]
            self.crowd.waiting[number] = job.ask
            self._start_waiting()
            if number in self.crowd.waiting and self.ways.preempts and job.priority:
                self._make_room(number)
        elif kind == ENDS and self.by_number[number].run == run:
            ask, seat = self.crowd.running.pop(number)
            self.scheduler.give_back(seat, ask)
            self._start_waiting()
        elif kind == PLANS:
            large = [(-ask.gpus, other) for other, ask in self.crowd.waiting.items() if ask.gpus > 1]
            if large:
                self._carry_out(self._plan(min(large)[1], may_preempt=False))

    def _start_waiting(self) -> None:
        dead: set[Ask] = set()
        order = sorted(self.crowd.waiting, key=lambda one: (-self.by_number[one].priority, one))
        for number in order:
            ask = self.crowd.waiting[number]
            if ask in dead:
                continue
            seat = self.scheduler.place(ask)
            if seat is None:
                dead.add(ask)
            else:
                self._begin(number, seat)

    def _begin(self, number: int, seat: Seat) -> None:
        job = self.by_number[number]
        self.crowd.running[number] = (self.crowd.waiting.pop(number), seat)
        job.started = self.now if job.started is None else job.started
        self._go_on(job)

    def _go_on(self, job: Job) -> None:
        job.begun, job.run = self.now, job.run + 1
        ends = self.now + job.seconds - job.done + (RESTART_SECONDS if job.run > 1 else 0.0)
        heapq.heappush(self._events, (ends, ENDS, job.number, job.run))

    def _interrupt(self, job: Job) -> None:
        """It keeps what its last checkpoint has."""
        ran = self.now - (job.begun if job.begun is not None else self.now)
        job.done = min(job.done + ran // CHECKPOINT_SECONDS * CHECKPOINT_SECONDS, job.seconds)
        job.interruptions += 1
        job.run += 1
        job.begun = None

    def _make_room(self, number: int) -> None:
        if self.ways.plans:
            self._carry_out(self._plan(number, may_preempt=True))
            return
        victims = self._stock_victims(number)
        for victim in victims:
            self._preempt(victim)
        if victims:
            self._start_waiting()

    def _preempt(self, number: int) -> None:
        ask, seat = self.crowd.running.pop(number)
        self.scheduler.give_back(seat, ask)
        self._interrupt(self.by_number[number])
        self.crowd.waiting[number] = ask
        self.preempted += 1

    def _stock_victims(self, number: int) -> list[int]:
        """kube-scheduler's choice: the node with the fewest victims, after as many as can are reprieved."""
        ask, best = self.crowd.waiting[number], None
        on_node: dict[int, list[int]] = {}
        for other, (_, seat) in self.crowd.running.items():
            if self.by_number[other].priority < self.by_number[number].priority:
                on_node.setdefault(seat.row, []).append(other)
        for row, guests in on_node.items():
            free = int(self.table.whole[row])
            victims: list[int] = []
            for other in sorted(guests, key=lambda one: (-self.crowd.running[one][0].gpus, one)):
                if free >= ask.gpus:
                    break
                if not self.crowd.running[other][0].is_part:
                    free += self.crowd.running[other][0].gpus
                    victims.append(other)
            if free >= ask.gpus and victims and (best is None or len(victims) < len(best)):
                best = victims
        return best or []

    def _plan(self, number: int, *, may_preempt: bool) -> Plan:
        """Room for one job that waits, as its row of the queue asks for it."""
        seen = snapshot_of(self.table, self.crowd)
        ranked = [
            replace(pod, priority=self.by_number[_number_of(pod.name)].priority) for pod in seen.pods.values()
        ]
        seen = seen.with_pods(ranked)
        key = next(pod.key for pod in ranked if pod.name == f"arrival-{number}")
        plan = plan_unlock(
            seen, workload=key, max_moves=MOST_MOVES, deadline=endless, may_preempt=may_preempt
        )
        faults = check_plan(seen, plan)
        if faults:
            raise RuntimeError(f"the plan does not hold: {faults[0]}")
        return plan

    def _carry_out(self, plan: Plan) -> None:
        rows = {node.name: row for row, node in enumerate(self.table.nodes)}
        for move in plan.moves:
            self._move(_number_of(move.pod), rows[move.target])
        for one in plan.preemptions:
            self._preempt(_number_of(one.pod))
        for given in plan.hand_overs:
            number, row = _number_of(given.pod), rows[given.node]
            seat = self._seat_on(self.crowd.waiting[number], row) if number in self.crowd.waiting else None
            if seat is not None:
                self._begin(number, seat)
        self._start_waiting()

    def _move(self, number: int, row: int) -> None:
        ask, seat = self.crowd.running[number]
        target = self._seat_on(ask, row)
        if target is None:
            return
        self.scheduler.give_back(seat, ask)
        self.crowd.running[number] = (ask, target)
        self._interrupt(self.by_number[number])
        self._go_on(self.by_number[number])
        self.moves += 1

    def _seat_on(self, ask: Ask, row: int) -> Seat | None:
        if not self.table.fits(ask, np.array([row]))[0]:
            return None
        seat = self.scheduler.policy.seat(ask, row, None)
        self.scheduler.take(seat, ask)
        return seat

    def _fragmented_gpus(self) -> float:
        """FGD's measure of the nodes as they are, against all that comes."""
        return sum(_stranded(self.table, spec.milli, spec.gpus, spec.cpu) * count
                   for spec, count in self.workload.specs) / self.workload.weight_total / 1000  # fmt: skip


def _stranded(table: NodeTable, milli: int, gpus: int, cpu: int) -> int:
    """Milli-GPUs that a pod of this spec cannot use: F_n(m), summed over the nodes."""
    if not gpus:
        return int(table.idle.sum())
    enough = table.gpu >= milli
    fits = (enough.sum(axis=1) >= gpus) & (table.cpu >= cpu)
    crumbs = np.where(enough, 0, table.gpu).sum(axis=1)
    return int(np.where(fits, crumbs, table.idle).sum())


def _number_of(pod: str) -> int:
    return int(pod.rpartition("-")[2])
