"""Which node does what, so that the most GPUs start: a linear program over columns, and its whole answer.

Rows: the moves; for each wish no more pods start than rooms are made; for each kind of moved pods no more
leave than arrive (kinds that need no GPU find room anywhere, as far as the program knows: the board asks);
each node does one thing. Not in here: which columns there are (search).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import highspy
import numpy as np

from apps.planner.program import QuietHighs
from apps.planner.queue.columns import Column
from apps.planner.queue.wishes import Batch

Deadline = Callable[[], bool]
MOST_BRANCHES = 400
LEAST_PRICE = 1e-3
"""What a move counts at least beside milli-GPUs: between equals the fewest."""


@dataclass(frozen=True, slots=True)
class Duals:
    """What one more move is worth, one more pod of each wish, what a place for each kind costs (milli)."""

    move: float
    wishes: tuple[float, ...]
    kinds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """value: milli-GPUs. parts: of each column, how much of it is done (0 to 1)."""

    value: float
    duals: Duals
    parts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """columns: those chosen. batches: how many of each start. milli: GPUs that start. bound: no choice
    among the known columns has more. proven: it is reached."""

    columns: tuple[Column, ...]
    batches: tuple[int, ...]
    milli: float
    bound: float
    proven: bool

    @property
    def moves(self) -> int:
        return sum(len(column.victims) for column in self.columns)


@dataclass(slots=True)
class QueueProgram:
    """kinds: by number, what moving in from nowhere costs in the linear program, in milli (0: anywhere).
    price: milli-GPUs that a move must be worth. slack: share of the best by which an answer may miss it."""

    batches: Sequence[Batch]
    wishes: int
    kinds: Sequence[float]
    most_moves: int
    price: float = 0.0
    slack: float = 1e-6
    columns: list[Column] = field(default_factory=list)
    _known: set[object] = field(default_factory=set)

    def add(self, column: Column) -> bool:
        if column.key in self._known:
            return False
        self._known.add(column.key)
        self.columns.append(column)
        return True

    def drop(self, keys: Collection[object]) -> None:
        """Columns that found no place; they do not come back."""
        self.columns = [column for column in self.columns if column.key not in keys]

    def relax(self, fixed: Collection[object] = ()) -> Relaxed | None:
        """The best if things could be done in part, and the prices then; fixed: keys of columns that are
        done whole. None: no answer."""
        solver = self._solver(self._model(self.columns, False, fixed))
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = solver.getSolution()
        dual, first = solution.row_dual, len(self.batches)
        parts = solution.col_value[first : first + len(self.columns)]
        value = -solver.getInfo().objective_function_value
        prices = [max(0.0, -one) for one in dual[: 1 + self.wishes + len(self.kinds)]]
        duals = Duals(
            prices[0] + self.price, tuple(prices[1 : 1 + self.wishes]), tuple(prices[1 + self.wishes :])
        )
        return Relaxed(value, duals, tuple(parts))

    def choose(
        self,
        deadline: Deadline,
        columns: Sequence[Column] | None = None,
        fixed: Collection[object] = (),
        least: float | None = None,
    ) -> Answer | None:
        """The best whole choice among these columns (all that are known); None if none was found in time.
        least: the fewest moves for so many milli-GPUs, rather than the most GPUs."""
        columns = self.columns if columns is None else columns
        solver = self._solver(self._model(columns, True, fixed, least))
        solver.setOptionValue("mip_max_nodes", MOST_BRANCHES)
        solver.setOptionValue("mip_rel_gap", self.slack)

        def stop_when_late(event: Any) -> None:
            if deadline():
                event.interrupt()

        solver.cbMipInterrupt.subscribe(stop_when_late)
        solver.run()
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        values = [round(value) for value in solver.getSolution().col_value]
        first = len(self.batches)
        counts = tuple(values[:first])
        chosen = tuple(column for column, value in zip(columns, values[first:], strict=False) if value)
        milli = sum(count * batch.milli for count, batch in zip(counts, self.batches, strict=True))
        proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return Answer(chosen, counts, milli, -info.mip_dual_bound, proven)

    def _entries(self, column: Column, row: int) -> list[tuple[int, float]]:
        """row: of its node."""
        part = [(row, 1.0)]
        if column.victims:
            part.append((0, float(len(column.victims))))
        part += [(1 + wish, -float(number)) for wish, number in column.starts]
        first = 1 + self.wishes
        part += [(first + at, float(number)) for at, number in column.leaves if self.kinds[at]]
        return part + [(first + at, -float(number)) for at, number in column.arrives if self.kinds[at]]

    def _solver(self, model: Any) -> Any:
        solver = QuietHighs()
        solver.setOptionValue("output_flag", False)
        for name, value in (("threads", 1), ("random_seed", 0)):
            solver.setOptionValue(name, value)
        solver.passModel(model)
        return solver

    def _model(
        self,
        columns: Sequence[Column],
        whole: bool,
        fixed: Collection[object] = (),
        least: float | None = None,
    ) -> Any:
        """Columns: batches, then the nodes' choices, then (only in part) arrivals from nowhere."""
        scarce = [at for at, cost in enumerate(self.kinds) if cost]
        node_row: dict[str, int] = {}
        base = 1 + self.wishes + len(self.kinds)
        costs: list[float] = [-float(batch.milli) for batch in self.batches]
        limits: list[float] = [float(len(batch.members)) for batch in self.batches]
        entries: list[list[tuple[int, float]]] = [
            [(1 + wish, float(number)) for wish, number in sorted(batch.needs.items())]
            for batch in self.batches
        ]
        for column in columns:
            costs.append(max(self.price, LEAST_PRICE) * len(column.victims))
            limits.append(1.0)
            row = node_row.setdefault(column.node, base + len(node_row))
            entries.append(self._entries(column, row))
        if not whole:
            for at in scarce:
                costs.append(float(self.kinds[at]))
                limits.append(highspy.kHighsInf)
                entries.append([(1 + self.wishes + at, -1.0)])
        highs = [float(self.most_moves)] + [0.0] * (base - 1) + [1.0] * len(node_row)
        if least is not None:
            for batch, part in zip(self.batches, entries, strict=False):
                part.append((len(highs), -float(batch.milli)))
            highs.append(0.5 - least)
            costs = [0.0] * len(self.batches) + [float(len(column.victims)) for column in columns]
        lows = [0.0] * len(costs)
        for at, column in enumerate(columns if fixed else (), start=len(self.batches)):
            lows[at] = float(column.key in fixed)
        return _build(costs, (lows, limits), entries, highs, whole)


def _build(
    costs: list[float],
    limits: tuple[list[float], list[float]],
    entries: list[list[tuple[int, float]]],
    highs: list[float],
    whole: bool,
) -> Any:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(highs)
    model.col_cost_ = np.array(costs, dtype=np.double)
    model.col_lower_ = np.array(limits[0], dtype=np.double)
    model.col_upper_ = np.array(limits[1], dtype=np.double)
    model.row_lower_ = np.full(len(highs), -highspy.kHighsInf)
    model.row_upper_ = np.array(highs, dtype=np.double)
    _fill_matrix(model, entries)
    if whole:
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    return model


def _fill_matrix(model: Any, entries: list[list[tuple[int, float]]]) -> None:
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    starts = np.cumsum([0, *map(len, entries)])
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = np.array([row for part in entries for row, _ in part], dtype=np.int32)
    model.a_matrix_.value_ = np.array([value for part in entries for _, value in part], dtype=np.double)
