"""Which nodes to empty, proven best: the grouped integer program.

Nodes of one class share one column; arrivals are packings of a class, or counts per shape where
packings are too many (a relaxation for GPU shares). First the counts may be fractions: that is quick,
its bound holds, and mostly its nodes can be emptied as they stand. If not, everything is a whole number,
first among the nodes of the plans at hand, then among all. Three objectives in a row: the most nodes, the
fewest moves, the least cost. Not in here: the answer on the board (emptying).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import groupby, islice

from apps.planner.capacity import Packing
from apps.planner.emptying import Candidate, ExactAnswer
from apps.planner.free_nodes_classes import ClassTable, NodeClass
from apps.planner.placement import Board
from apps.planner.program import SLACK, Deadline, Program, Solution, scale_row
from apps.planner.rooms import WHOLE

MOST_NODES_FOR_COST = 200
"""Branches that the third stage may open: the least cost matters less than an answer in time."""


HALF = 0.5
"""A node of which the linear relaxation empties so much is tried first."""
MOST_NODES_AMONG = 20
"""The same, where only the nodes of the plans at hand are combined: what is worth it is found soon."""


class FreeNodesProgram:
    """is_counted: whether some nodes' arrivals are counts, so that a relaxed answer is quicker than a whole
    one. left_out: whether there are rules between pods that it does not know. guests: by column of the
    emptied, the moves."""

    def __init__(
        self, board: Board, candidates: Sequence[Candidate], max_moves: int, deadline: Deadline
    ) -> None:
        """The board as it is before any move."""
        self.max_moves = max_moves
        self.deadline = deadline
        self.was_late = False
        self.table = ClassTable(board, candidates, self._is_late)
        self.shapes, self.classes = self.table.shapes, self.table.classes
        self.left_out = self.table.arrivals.rules.left_out
        self.program = Program()
        self.guests: dict[int, float] = {}
        self._fill()
        self.is_counted = any(one.counts for one in self.classes)

    def solve(
        self, at_least: int, at_most: int, *, relaxed: bool = False, among: Collection[str] = ()
    ) -> ExactAnswer | None:
        """The most nodes, then the fewest moves. None: no answer in time, or none among those nodes.

        relaxed: counts may be fractions. among: only these nodes may be emptied; no bound follows then.
        at_least, at_most: what is known to be reachable, and a bound.
        """
        if self._is_late():
            return None
        program, weight = self.program, float(self.max_moves + 1)
        limits = program.limits
        if among:
            program.limits = self._limits_among(frozenset(among))
        program.set_costs({column: moves - weight for column, moves in self.guests.items()})
        program.add_row(dict.fromkeys(self.guests, 1.0), low=at_least, high=at_most)
        found = program.solve(self.deadline, MOST_NODES_AMONG if among else None, relaxed=relaxed)
        program.drop_last_row()
        program.limits = limits
        if found is None or not found.values:
            return None
        bound = int((self.max_moves - found.bound) / weight + SLACK)
        return self._answer(found, min(bound, at_most), found.proven)

    def guide(self, at_least: int, at_most: int) -> ExactAnswer | None:
        """What the linear relaxation would do, rounded: nodes by how much of each it empties, as far as the
        moves suffice. moves: no plan that frees as many as the bound takes fewer."""
        program, weight = self.program, float(self.max_moves + 1)
        program.set_costs({column: moves - weight for column, moves in self.guests.items()})
        program.add_row(dict.fromkeys(self.guests, 1.0), low=at_least, high=at_most)
        found = program.solve_linear(self.deadline)
        program.drop_last_row()
        if found is None:
            return None
        values, objective = found
        bound = min(int((self.max_moves - objective) / weight + SLACK), at_most)
        ranked: list[tuple[float, int, float, str]] = []
        rounded = [math.ceil(value - SLACK) for value in values]
        for one in self.classes:
            for column, nodes in one.emptied.items():
                parts = [min(max(values[column] - at, 0.0), 1.0) for at in range(len(nodes))]
                rounded[column] = sum(part >= HALF for part in parts)
                ranked += [
                    (-round(part, 3), one.moves, self.table.cost(name), name)
                    for part, name in zip(parts, nodes, strict=True)
                    if part > SLACK
                ]
        places = self._answer(Solution(tuple(rounded), objective, objective, False), bound, proven=False)
        sources = [name for *_, name in self._within_moves(sorted(ranked))]
        return ExactAnswer(
            tuple(sources), places.room, bound, False, math.ceil(objective + bound * weight - SLACK)
        )

    def _within_moves(
        self, ranked: list[tuple[float, int, float, str]]
    ) -> Iterator[tuple[float, int, float, str]]:
        left = self.max_moves
        for entry in ranked:
            if entry[0] <= -HALF and entry[1] <= left:
                left -= entry[1]
                yield entry

    def cheapest(self, answer: ExactAnswer, *, relaxed: bool = False) -> ExactAnswer | None:
        """As many nodes with as few moves, at the least cost that is found quickly."""
        if self._is_late():
            return None
        program = self.program
        program.set_costs(
            {
                column: self.table.cost(nodes[0])
                for one in self.classes
                for column, nodes in one.emptied.items()
            }
        )
        program.add_row(dict.fromkeys(self.guests, 1.0), low=len(answer.sources))
        program.add_row(self.guests, high=answer.moves)
        found = program.solve(self.deadline, most_nodes=MOST_NODES_FOR_COST, relaxed=relaxed)
        program.drop_last_row()
        program.drop_last_row()
        if found is None or not found.values:
            return None
        return self._answer(found, answer.bound, answer.proven)

    def _limits_among(self, among: frozenset[str]) -> list[float]:
        limits = list(self.program.limits)
        for one in self.classes:
            for column, nodes in one.emptied.items():
                nodes.sort(key=lambda name: (name not in among, name))
                limits[column] = float(sum(name in among for name in nodes))
        return limits

    def _is_late(self) -> bool:
        """Whether time ran out while the program was written: half of one would prove nothing."""
        self.was_late = self.was_late or self.deadline()
        return self.was_late

    def _fill(self) -> None:
        program = self.program
        supply: list[dict[int, float]] = [{} for _ in self.shapes]
        for one in self.classes:
            if self._is_late():
                return
            if one.guests is not None:
                self._add_emptying(one, one.guests, supply)
            if one.packings:
                self._add_packings(one, supply)
            elif not one.capacity.is_useless:
                self._add_counts(one, supply)
        for row in supply:
            if row:
                program.add_row(row, low=0.0)
        program.add_row(self.guests, high=float(self.max_moves))

    def _add_emptying(
        self, one: NodeClass, guests: tuple[tuple[int, int], ...], supply: list[dict[int, float]]
    ) -> None:
        for _, nodes in groupby(one.nodes, key=self.table.cost):
            level = list(nodes)
            column = self.program.add_column(-1.0, len(level))
            one.emptied[column] = level
            self.guests[column] = float(one.moves)
            for at, count in guests:
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
            column = program.add_column(0.0, most, loose=True)
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
                column: float(amount)
                for at, column in one.counts.items()
                if (amount := self.shapes[at].amount(name, by_device))
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
        moves = 0
        for one in self.classes:
            emptied = [
                name for column, nodes in one.emptied.items() for name in nodes[: solution.values[column]]
            ]
            sources += emptied
            moves += len(emptied) * one.moves
            left = set(one.nodes).difference(emptied)
            others = iter([name for name in one.nodes if name in left])
            for column, packing in one.packings:
                # Rounded fractions may name more nodes than there are.
                for name in islice(others, solution.values[column]):
                    room.append((name, self._by_shape(dict(enumerate(packing)))))
            if one.counts and not emptied:
                counts = {at: solution.values[column] for at, column in one.counts.items()}
                room.append((next(others), self._by_shape(counts)))
        return ExactAnswer(tuple(sources), tuple(room), bound, proven, moves)

    def _by_shape(self, counts: dict[int, int]) -> dict[Hashable, int]:
        return {self.shapes[at].key: count for at, count in counts.items() if count}
