"""Where moved pods go: a board on which moves are tried, taken back, and kept.

The board holds the cluster twice. `held`: what runs now plus every arrival; a target must have
room there, so all targets can be held before the first eviction and every prefix of the moves
fits in any order. `final`: what it will look like; pods that wait are started there.
Not in here: which pods to move (free_nodes, unlock).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from apps.planner.costs import DEFAULT_COSTS, CostPolicy, disruption_cost
from apps.planner.fitting import Fitting
from apps.planner.inventory import Pod
from apps.planner.movability import MovabilityRules
from apps.planner.resources import Demand, asks_gpu
from apps.planner.rooms import Rooms
from apps.planner.snapshot import Snapshot
from apps.planner.target_table import Flags, TargetTable

Mark = tuple[int, int, int, int, frozenset[str], int, int]
"""Where to go back to: both journals, moves, started pods, closed nodes, changed targets, the stage."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """stage: 1-based; a later one may go where an earlier one has made room."""

    pod: Pod
    source: str
    target: str
    stage: int = 1


class Board:
    """closed: nodes that take no arrivals (being emptied, or kept for the pods that wait).
    kept_free: free nodes, which stay whole for large pods: GPU pods never move onto them.
    version, touched: how often each node has changed, and which, in order. rooms: as the snapshot
    tells them, if the caller has them already; they are taken over."""

    def __init__(
        self, snapshot: Snapshot, policy: CostPolicy = DEFAULT_COSTS, rooms: Rooms | None = None
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.final = rooms or Rooms(snapshot)
        self.held = self.final.copy()
        self.fitting = Fitting(self.final)
        self.rules = MovabilityRules(snapshot)
        self.moves: list[PlannedMove] = []
        self.started: list[tuple[Pod, str]] = []
        self.stage = 1
        self.closed: set[str] = set()
        self.kept_free = {name for name, room in self.held.by_node.items() if is_unused(room.pods.values())}
        self.table = TargetTable(self.held, self.fitting)
        self.version: dict[str, int] = dict.fromkeys(self.held.by_node, 0)
        self.touched: list[str] = []
        self._retargets: list[tuple[int, PlannedMove]] = []
        self._costs: dict[str, float] = {}
        self._first_homes: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._open: dict[tuple[object, ...], tuple[Flags, tuple[str, ...]]] = {}
        self._may_take = {True: self.table.without(self.kept_free), False: self.table.without(())}

    def cost(self, pod: Pod) -> float:
        known = self._costs.get(pod.uid)
        if known is None:
            known = self._costs[pod.uid] = disruption_cost(self.snapshot, pod, self.policy)
        return known

    def shape(self, pod: Pod) -> tuple[Demand, tuple[object, ...]]:
        """Pods of one shape may go to the same nodes (rules between pods aside)."""
        return self.final.demand(pod), self.fitting.signature(pod)

    def may_leave(self, pod: Pod) -> bool:
        return self.rules.judge(pod).movable

    def open_nodes(self, pod: Pod) -> tuple[str, ...]:
        """Nodes that the pod's fixed wishes allow, whether or not they have room."""
        return self._opened(pod)[1]

    def _opened(self, pod: Pod) -> tuple[Flags, tuple[str, ...]]:
        shape = self.shape(pod)
        known = self._open.get(shape)
        if known is None:
            mask = self.table.allowed(pod, shape[0])
            known = self._open[shape] = mask, self.table.names_of(mask)
        return known

    def roomy_nodes(self, pod: Pod) -> Flags:
        """Nodes whose numbers suffice for the pod and that are not kept whole for larger ones."""
        allowed = self._opened(pod)[0] & self._may_take[asks_gpu(pod)]
        return self.table.with_room(self.final.demand(pod), allowed)

    def has_target(self, pod: Pod, source: str) -> bool:
        """Whether some other node had room for the pod before any move; remembered per shape."""
        shape = self.shape(pod)
        known = self._first_homes.get(shape)
        if known is None:
            rooms, demand = self.held.by_node, shape[0]
            homes = (name for name in self.table.names_of(self.roomy_nodes(pod)) if rooms[name].fits(demand))
            known = self._first_homes[shape] = tuple(islice(homes, 2))
        return any(name != source for name in known)

    def choose_target(self, pod: Pod, source: str) -> str | None:
        """The tightest node that takes the pod; ties by all that is on the node, by name last."""
        demand, rooms = self.final.demand(pod), self.held.by_node
        mask = self.roomy_nodes(pod) & self.table.without((source, *self.closed))
        asks_neighbours = self.fitting.needs_neighbours(pod)
        for tied in self.table.by_tightness(mask):
            fitting = [name for name in tied if rooms[name].fits(demand)]
            if len(fitting) > 1:
                fitting.sort(key=lambda name: (self._picture(name), name))
            for name in fitting:
                if not asks_neighbours or self.accepts(pod, source, name):
                    return name
        return None

    def accepts(self, pod: Pod, source: str, target: str) -> bool:
        """Whether this one node takes the pod, all rules asked."""
        if target == source or target in self.closed or (target in self.kept_free and asks_gpu(pod)):
            return False
        if not self.held.fits(pod, target):
            return False
        mark = self.final.checkpoint()
        self.final.remove(pod)
        try:
            return self.fitting.can_run(pod, target)
        finally:
            self.final.undo(mark)

    def move(self, pod: Pod, target: str) -> None:
        source = self.final.where[pod.uid]
        devices = self.held.by_node[target].choose_devices(self.held.demand(pod))
        self.final.remove(pod)
        self.final.place(pod, target, devices)
        self.held.place(_as_arrival(pod), target, devices)
        self.moves.append(PlannedMove(pod, source, target, self.stage))
        self._touch((source, target))

    def next_stage(self) -> None:
        """From here on the places that moved pods have left count as free."""
        for planned in self.moves:
            if planned.stage == self.stage:
                self.held.remove(planned.pod)
                self._touch((planned.source,))
        # Who started where others had yet to leave found no devices among those held; now there are.
        for pod, _ in self.started:
            self.held.remove(pod)
        for pod, node_name in self.started:
            self.held.place(pod, node_name)
            self._touch((node_name,))
        self.stage += 1

    def begin_stage(self) -> None:
        """`next_stage` for a search that looks at the board anew: nodes that were cleared take pods again."""
        self.next_stage()
        self.closed = set()
        self._first_homes.clear()

    def retarget(self, at: int, target: str) -> None:
        """The move at that place in the order goes elsewhere; only where no rule between pods is asked."""
        old = self.moves[at]
        arrival = _as_arrival(old.pod)
        self.held.remove(arrival)
        self.final.remove(old.pod)
        devices = self.held.by_node[target].choose_devices(self.held.demand(old.pod))
        self.final.place(old.pod, target, devices)
        self.held.place(arrival, target, devices)
        self.moves[at] = replace(old, target=target)
        self._retargets.append((at, old))
        self._touch((old.target, target))

    def could_swap_in(self, pod: Pod, at: int) -> bool:
        """Whether the pod would fit where that move goes, did the move go elsewhere."""
        move = self.moves[at]
        room, arrival = self.held.by_node[move.target], _as_arrival(move.pod)
        demand = self.held.demand(arrival)
        taken = room.drop(arrival, demand)
        fits = room.fits(self.held.demand(pod))
        room.add(arrival, demand, taken)
        return fits

    def start(self, pod: Pod, node_name: str) -> None:
        """A pod that waits gets its place; it counts against arrivals from now on."""
        self.final.place(pod, node_name)
        self.held.place(pod, node_name)
        self.started.append((pod, node_name))
        self._touch((node_name,))

    def checkpoint(self) -> Mark:
        return (
            self.final.checkpoint(),
            self.held.checkpoint(),
            len(self.moves),
            len(self.started),
            frozenset(self.closed),
            len(self._retargets),
            self.stage,
        )

    def undo(self, mark: Mark) -> None:
        final, held, moves, started, closed, retargets, stage = mark
        if self.stage != stage:
            # Since then, earlier moves and starts have changed what is held, too.
            self._touch([*(move.source for move in self.moves[:moves]), *(name for _, name in self.started)])
            self.stage = stage
        while len(self._retargets) > retargets:
            at, old = self._retargets.pop()
            if at < len(self.moves):
                self._touch((self.moves[at].target,))
                self.moves[at] = old
                self._touch((old.target,))
        self._touch(name for move in self.moves[moves:] for name in (move.source, move.target))
        self._touch(name for _, name in self.started[started:])
        self.final.undo(final)
        self.held.undo(held)
        del self.moves[moves:]
        del self.started[started:]
        self.closed = set(closed)

    def kept_since(self, mark: Mark) -> tuple[list[PlannedMove], list[tuple[Pod, str]], frozenset[str]]:
        """What has been put on the board since then, for `redo` after an `undo`."""
        return self.moves[mark[2] :], self.started[mark[3] :], frozenset(self.closed)

    def redo(self, kept: tuple[list[PlannedMove], list[tuple[Pod, str]], frozenset[str]]) -> None:
        moves, started, closed = kept
        self.closed = set(closed)
        for planned in moves:
            self.move(planned.pod, planned.target)
        for pod, node_name in started:
            self.start(pod, node_name)

    def _touch(self, names: Iterable[str]) -> None:
        for name in names:
            self.version[name] += 1
            self.touched.append(name)
            self.table.touch(name)

    def _picture(self, name: str) -> tuple[object, ...]:
        """The node without any names: nodes that look the same may be exchanged for each other."""
        room = self.held.by_node[name]
        guests = sorted(
            (self.held.demand(pod).gpu_milli, pod.requests.get("cpu", 0), bool(pod.protections))
            for pod in room.pods.values()
        )
        return sorted(room.gpu_left), guests


def is_unused(pods: Iterable[Pod]) -> bool:
    return not any(asks_gpu(pod) for pod in pods)


def _as_arrival(pod: Pod) -> Pod:
    """The successor of a moved pod, beside the pod itself, which still holds its place."""
    return Pod(
        uid=f"arrival-of-{pod.uid}",
        namespace=pod.namespace,
        name=pod.name,
        requests=pod.requests,
        gpu_milli=pod.gpu_milli,
        link=pod.link,
        host_ports=pod.host_ports,
    )
