"""Which nodes to empty, proven best: the grouped integer program, and its answer on the board.

Nodes of one class (same guests by shape, same capacity) share one column; arrivals are packings
of a class, or counts per shape where packings are too many (a relaxation for GPU shares). Three
stages: the most nodes, the fewest moves, the least cost. The bound holds whatever happens afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from apps.planner.capacity import (
    FEW_SHAPES,
    FEW_STATES,
    MOST_STATES,
    Capacity,
    Packing,
    Shape,
    amount_of,
    capacity_of,
    list_packings,
    shape_key,
)
from apps.planner.emptying import Candidate, ExactAnswer
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.program import Deadline, Program, Solution, scale_row
from apps.planner.rooms import WHOLE

MOST_NODES_FOR_COST = 200
"""Branches that the third stage may open: the least cost matters less than an answer in time."""


@dataclass(slots=True)
class NodeClass:
    """nodes: cheapest to empty first. guests: pods per shape; None if it cannot be emptied.

    emptied: a column for each level of cost -> the nodes of that level.
    """

    key: Hashable
    nodes: list[str]
    capacity: Capacity
    guests: tuple[int, ...] | None
    emptied: dict[int, list[str]] = field(default_factory=dict)
    packings: list[tuple[int, Packing]] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


class FreeNodesProgram:
    def __init__(
        self, board: Board, candidates: Sequence[Candidate], max_moves: int, deadline: Deadline
    ) -> None:
        """The board as it is before any move."""
        self.board = board
        self.max_moves = max_moves
        self.candidates = {candidate.node: candidate for candidate in candidates}
        self.shapes = _collect_shapes(board, candidates)
        self.deadline = deadline
        self.was_late = False
        self._listed: dict[tuple[Capacity, int], list[Packing] | None] = {}
        self.classes = self._group_nodes()
        self.program = Program()
        self._fill()

    def solve(self, at_least: int) -> ExactAnswer | None:
        """at_least: what is known to be reachable. None: no answer in time."""
        first = None if self._is_late() else self.program.solve(self.deadline)
        if first is None:
            return None
        bound, freed = int(-first.bound + 1e-6), round(-first.objective)
        if freed < at_least:
            return ExactAnswer((), (), bound, False)
        guests = {column: float(sum(one.guests or ())) for one in self.classes for column in one.emptied}
        self.program.add_row(dict.fromkeys(guests, 1.0), low=freed)
        self.program.set_costs(guests)
        second = self.program.solve(self.deadline)
        if second is None or not second.values:
            return self._answer(first, bound, False)
        self.program.add_row(guests, high=round(second.objective))
        self.program.set_costs(
            {column: self._cost(nodes[0]) for one in self.classes for column, nodes in one.emptied.items()}
        )
        third = self.program.solve(self.deadline, most_nodes=MOST_NODES_FOR_COST)
        best = second if third is None or not third.values else third
        return self._answer(best, bound, first.proven and second.proven)

    def _is_late(self) -> bool:
        """Whether time ran out while the program was written: half of one would prove nothing."""
        self.was_late = self.was_late or self.deadline()
        return self.was_late

    def _group_nodes(self) -> list[NodeClass]:
        board, shapes = self.board, self.shapes
        allowed: dict[str, list[bool]] = defaultdict(lambda: [False] * len(shapes))
        for at, shape in enumerate(shapes):
            if self._is_late():
                return []
            for name in board.open_nodes(shape.pod):
                allowed[name][at] = True
        index = {shape.key: at for at, shape in enumerate(shapes)}
        grouped: dict[Hashable, NodeClass] = {}
        for name, room in board.held.by_node.items():
            if self._is_late():
                return []
            candidate = self.candidates.get(name)
            if name in board.kept_free or not room.node.gpus:
                may = [not shape.demand.gpus and ok for shape, ok in zip(shapes, allowed[name], strict=True)]
            else:
                may = allowed[name]
            capacity = capacity_of(room, shapes, may)
            guests = None if candidate is None else _count_shapes(board, candidate.guests, index)
            if guests is None and capacity.is_useless:
                continue
            key = (capacity.devices, capacity.left, capacity.most, guests)
            grouped.setdefault(key, NodeClass(key, [], capacity, guests)).nodes.append(name)
        for one in grouped.values():
            one.nodes.sort(key=lambda name: (self._cost(name), name))
        classes = sorted(grouped.values(), key=lambda one: repr(one.key))
        return [part for one in classes for part in self._split(one)]

    def _cost(self, name: str) -> float:
        candidate = self.candidates.get(name)
        return 0.0 if candidate is None else candidate.cost

    def _split(self, one: NodeClass) -> list[NodeClass]:
        """A class keeps together if its packings can be listed; else each node stands alone."""
        if one.capacity.is_useless:
            return [one]
        coming = [self.shapes[at] for at, most in enumerate(one.capacity.most) if most]
        shares = len(coming) <= FEW_SHAPES and any(shape.is_share for shape in coming)
        packings = None
        if (len(one.nodes) > 1 or shares) and not self._is_late():
            packings = self._packings(one.capacity, MOST_STATES if len(one.nodes) > 1 else FEW_STATES)
        if packings is not None:
            one.packings = [(-1, packing) for packing in packings]
            return [one]
        return [NodeClass(one.key, [name], one.capacity, one.guests) for name in one.nodes]

    def _packings(self, capacity: Capacity, most_states: int) -> list[Packing] | None:
        key = (capacity, most_states)
        if key not in self._listed:
            self._listed[key] = list_packings(capacity, self.shapes, most_states)
        return self._listed[key]

    def _fill(self) -> None:
        program = self.program
        supply: list[dict[int, float]] = [{} for _ in self.shapes]
        moves: dict[int, float] = {}
        for one in self.classes:
            if self._is_late():
                return
            if one.guests is not None:
                self._add_emptying(one, one.guests, supply, moves)
            if one.packings:
                self._add_packings(one, supply)
            elif not one.capacity.is_useless:
                self._add_counts(one, supply)
        for row in supply:
            if row:
                program.add_row(row, low=0.0)
        program.add_row(moves, high=float(self.max_moves))

    def _add_emptying(
        self, one: NodeClass, guests: tuple[int, ...], supply: list[dict[int, float]], moves: dict[int, float]
    ) -> None:
        for _, nodes in groupby(one.nodes, key=self._cost):
            level = list(nodes)
            column = self.program.add_column(-1.0, len(level))
            one.emptied[column] = level
            moves[column] = float(sum(guests))
            for at, count in enumerate(guests):
                if count:
                    supply[at][column] = -float(count)

    def _add_packings(self, one: NodeClass, supply: list[dict[int, float]]) -> None:
        chosen: dict[int, float] = dict.fromkeys(one.emptied, 1.0)
        columns: list[tuple[int, Packing]] = []
        for _, packing in one.packings:
            column = self.program.add_column(0.0, len(one.nodes))
            columns.append((column, packing))
            chosen[column] = 1.0
            for at, count in enumerate(packing):
                if count:
                    supply[at][column] = float(count)
        one.packings = columns
        self.program.add_row(chosen, high=float(len(one.nodes)))

    def _add_counts(self, one: NodeClass, supply: list[dict[int, float]]) -> None:
        capacity, program = one.capacity, self.program
        for at, most in enumerate(capacity.most):
            if not most:
                continue
            column = program.add_column(0.0, most)
            one.counts[at] = column
            supply[at][column] = 1.0
            if one.emptied:
                shut = dict.fromkeys(one.emptied, float(most))
                program.add_row({column: 1.0, **shut}, high=float(most))
        for weights, have in self._limits(one):
            shut = dict.fromkeys(one.emptied, float(have))
            program.add_row({**weights, **shut}, high=float(have))

    def _limits(self, one: NodeClass) -> list[tuple[dict[int, float], int]]:
        """What all arrivals on the node share: each resource, the idle GPU, the whole GPUs."""
        capacity = one.capacity
        by_device = bool(capacity.devices)
        limits: list[tuple[dict[int, float], int]] = []
        for name, have in capacity.left:
            weights = {
                column: float(amount_of(self.shapes[at].demand, name, by_device))
                for at, column in one.counts.items()
                if amount_of(self.shapes[at].demand, name, by_device)
            }
            limits.append(scale_row(weights, have))
        if by_device:
            milli = {column: float(self.shapes[at].demand.gpu_milli) for at, column in one.counts.items()}
            limits.append((milli, sum(capacity.devices)))
            whole = {
                column: float(self.shapes[at].demand.gpus)
                for at, column in one.counts.items()
                if self.shapes[at].demand.milli == WHOLE
            }
            limits.append((whole, capacity.free_gpus))
        return [(weights, have) for weights, have in limits if weights]

    def _answer(self, solution: Solution, bound: int, proven: bool) -> ExactAnswer:
        sources: list[str] = []
        room: list[tuple[str, dict[Hashable, int]]] = []
        for one in self.classes:
            emptied = [
                name for column, nodes in one.emptied.items() for name in nodes[: solution.values[column]]
            ]
            sources += emptied
            others = iter([name for name in one.nodes if name not in set(emptied)])
            for column, packing in one.packings:
                for _ in range(solution.values[column]):
                    room.append((next(others), self._by_shape(dict(enumerate(packing)))))
            if one.counts and not emptied:
                counts = {at: solution.values[column] for at, column in one.counts.items()}
                room.append((next(others), self._by_shape(counts)))
        moves = sum(len(self.candidates[name].guests) for name in sources)
        return ExactAnswer(tuple(sources), tuple(room), bound, proven, moves)

    def _by_shape(self, counts: dict[int, int]) -> dict[Hashable, int]:
        return {self.shapes[at].key: count for at, count in counts.items() if count}


def _collect_shapes(board: Board, candidates: Sequence[Candidate]) -> list[Shape]:
    found: dict[Hashable, Pod] = {}
    for candidate in candidates:
        for pod in candidate.guests:
            found.setdefault(shape_key(board, pod), pod)
    shapes = [Shape(key, board.final.demand(pod), pod) for key, pod in found.items()]
    return sorted(shapes, key=lambda shape: (-shape.demand.gpu_milli, repr(shape.key)))


def _count_shapes(board: Board, pods: Sequence[Pod], index: dict[Hashable, int]) -> tuple[int, ...]:
    counts = Counter(index[shape_key(board, pod)] for pod in pods)
    return tuple(counts[at] for at in range(len(index)))
