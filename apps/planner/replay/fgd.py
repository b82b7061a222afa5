"""Fragmentation gradient descent: the node whose fragmentation grows least.

FGD: "Beware of Fragmentation", USENIX ATC 2023; ΔF = F before − after, in milli-GPU. `fgd` rounds it through
a sigmoid to whole points, as the published scheduler does; `fgd-exact` compares ΔF itself.
"""

from __future__ import annotations

import math

import numpy as np

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.replay.nodes import Ints, NodeTable
from apps.planner.replay.policies import MOST, Points, Policy
from apps.planner.replay.usable import Usable
from apps.planner.workload import Workload

FAR = 64
"""GPUs: farther than this the sigmoid is 0 or 1 in floating point, too."""


class FgdExact(Policy):
    """ΔF as an integer (counts × milli). A part is tried on every fitting GPU, the best (first) is taken."""

    name = "fgd-exact"

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        self.usable = Usable(table, workload)
        self.wishes = self.usable.wishes

    def refresh(self, row: int) -> None:
        self.usable.refresh(row)

    def score(self, ask: Ask, rows: Ints) -> Points:
        if ask.is_part:
            return self._score_part(ask, rows)
        serving = self.usable.serving[rows]
        if ask.gpus:
            serving -= ask.gpus * self.wishes.serving[WHOLE]
        return Points(self.round(self._gain(ask, rows, serving)))

    def _gain(self, ask: Ask, rows: Ints, serving: Ints) -> Ints:
        """serving: of the rows as they would be after placing; a row may be asked several times."""
        table = self.table
        after = self.wishes.worth(table.model[rows], table.cpu[rows] - ask.cpu, serving)
        return self.wishes.total * ask.gpu_milli - self.usable.worth[rows] + after

    def round(self, gain: Ints) -> Ints:
        return gain

    def _score_part(self, ask: Ask, rows: Ints) -> Points:
        at, device = (self.table.gpu[rows] >= ask.milli).nonzero()
        row = rows[at]
        before = self.table.gpu[row, device]
        serving = self.usable.serving[row]
        serving -= self.wishes.serving.take(before, axis=0)
        serving += self.wishes.serving.take(before - ask.milli, axis=0)
        points = self.round(self._gain(ask, row, serving))
        starts = np.searchsorted(at, np.arange(len(rows)))
        best = np.maximum.reduceat(points, starts)
        width = self.table.gpu.shape[1]
        first = np.minimum.reduceat(np.where(points == best[at], device, width), starts)
        return Points(best, first)


class Fgd(FgdExact):
    """⌊100 · sigmoid(ΔF / 1000)⌋, through the least ΔF that earns each number of points."""

    name = "fgd"

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        self.least = _least_gains(max(self.wishes.total, 1) * WHOLE)

    def round(self, gain: Ints) -> Ints:
        return self.least.searchsorted(gain, side="right")


def _least_gains(unit: int) -> Ints:
    """For 1 to 100 points, the least ΔF (counts × milli) that earns them. unit: counts × milli of a whole
    GPU."""
    return np.array([_least_gain(points, unit) for points in range(1, MOST + 1)], dtype=np.int64)


def _least_gain(points: int, unit: int) -> int:
    low, high = -FAR * unit, FAR * unit
    while low < high:
        middle = (low + high) // 2
        if int(MOST / (1 + math.exp(-middle / unit))) >= points:
            high = middle
        else:
            low = middle + 1
    return low
