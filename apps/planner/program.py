"""A small integer program, built column by column and solved by HiGHS.

Deterministic: one thread, fixed seed; a deadline may cut it short, and then says so.
Not in here: what the columns mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import highspy
import numpy as np

Deadline = Callable[[], bool]
SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Solution:
    """values: rounded; empty when it is proven that there are none. bound: no solution is better
    than this. proven: it is reached."""

    values: tuple[int, ...]
    objective: float
    bound: float
    proven: bool


@dataclass(slots=True)
class Program:
    """Minimises. Columns are whole numbers between 0 and their limit; `loose` ones may be fractions where
    an answer is asked for quickly."""

    costs: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    loose: list[bool] = field(default_factory=list)
    _low: list[float] = field(default_factory=list)
    _high: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _columns: list[int] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)

    def add_column(self, cost: float, limit: float, *, loose: bool = False) -> int:
        self.costs.append(cost)
        self.limits.append(limit)
        self.loose.append(loose)
        return len(self.costs) - 1

    def add_row(
        self, weights: Mapping[int, float], *, low: float = -math.inf, high: float = math.inf
    ) -> None:
        self._columns.extend(weights.keys())
        self._weights.extend(weights.values())
        self._starts.append(len(self._columns))
        self._low.append(low)
        self._high.append(high)

    def drop_last_row(self) -> None:
        self._starts.pop()
        del self._columns[self._starts[-1] :], self._weights[self._starts[-1] :]
        self._low.pop()
        self._high.pop()

    def set_costs(self, costs: Mapping[int, float]) -> None:
        """Ask for something else from now on; columns that are not named cost nothing."""
        self.costs = [0.0] * len(self.costs)
        for column, cost in costs.items():
            self.costs[column] = cost

    def solve(
        self,
        deadline: Deadline,
        most_nodes: int | None = None,
        *,
        relaxed: bool = False,
    ) -> Solution | None:
        """None: nothing feasible was found in time. most_nodes: of the search tree. relaxed: loose columns
        may be fractions (rounded up in the answer; the bound holds for whole ones too)."""
        if not self.costs:
            return Solution((), 0.0, 0.0, True)
        if deadline():
            return None
        solver = QuietHighs()
        for name, value in (
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 1e-6),
        ):
            solver.setOptionValue(name, value)
        solver.passModel(self._model(relaxed))
        if most_nodes is not None:
            solver.setOptionValue("mip_max_nodes", most_nodes)
        _obey(solver, deadline)
        solver.run()
        return self._read(solver, relaxed)

    def solve_linear(self, deadline: Deadline) -> tuple[list[float], float] | None:
        """(values, objective) where everything may be a fraction; no whole answer is better. None: time ran
        out, or there is none."""
        if not self.costs or deadline():
            return None
        solver = QuietHighs()
        model = self._model(relaxed=True)
        model.integrality_ = []
        for name, value in (("threads", 1), ("random_seed", 0), ("solver", "simplex")):
            solver.setOptionValue(name, value)
        solver.passModel(model)
        _obey(solver, deadline)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return list(solver.getSolution().col_value), solver.getInfo().objective_function_value

    def _model(self, relaxed: bool) -> Any:
        model = highspy.HighsLp()
        columns, rows = len(self.costs), len(self._low)
        model.num_col_, model.num_row_ = columns, rows
        model.col_cost_ = np.array(self.costs, dtype=np.double)
        model.col_lower_ = np.zeros(columns)
        model.col_upper_ = np.array(self.limits, dtype=np.double)
        model.row_lower_ = np.array(self._low, dtype=np.double)
        model.row_upper_ = np.array(self._high, dtype=np.double)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self._starts, dtype=np.int32)
        model.a_matrix_.index_ = np.array(self._columns, dtype=np.int32)
        model.a_matrix_.value_ = np.array(self._weights, dtype=np.double)
        whole, loose = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        model.integrality_ = [loose if relaxed and one else whole for one in self.loose]
        return model

    def _read(self, solver: Any, relaxed: bool) -> Solution | None:
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return Solution((), math.inf, math.inf, True)
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        values = tuple(
            math.ceil(value - SLACK) if relaxed and loose else round(value)
            for value, loose in zip(solver.getSolution().col_value, self.loose, strict=True)
        )
        proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        objective = info.objective_function_value
        return Solution(values, objective, objective if proven else info.mip_dual_bound, proven)


class QuietHighs(highspy.Highs):
    """HiGHS greets on standard output when its callbacks are switched on; answers of ours go there."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


def _obey(solver: Any, deadline: Deadline) -> None:
    def stop_when_late(event: Any) -> None:
        if deadline():
            event.interrupt()

    solver.cbMipInterrupt.subscribe(stop_when_late)
    solver.cbSimplexInterrupt.subscribe(stop_when_late)


def scale_row(weights: Mapping[int, float], have: int) -> tuple[dict[int, float], int]:
    """The same limit in small numbers (bytes would spoil the arithmetic), exactly."""
    unit = math.gcd(*(int(weight) for weight in weights.values()))
    if not unit:
        return {}, 0
    return {column: weight / unit for column, weight in weights.items() if weight}, have // unit
