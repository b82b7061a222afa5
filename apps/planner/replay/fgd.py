"""Fragmentation gradient descent: the node whose fragmentation grows least.

FGD: "Beware of Fragmentation", USENIX ATC 2023; ΔF = F before − after, in milli-GPU. `fgd` rounds it through
a sigmoid to whole points, as the published scheduler does; `fgd-exact` compares ΔF itself.
"""

from __future__ import annotations

import numpy as np

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.replay.nodes import Ints, NodeTable
from apps.planner.replay.policies import MOST, Points, Policy
from apps.planner.replay.usable import Usable
from apps.planner.workload import Workload


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
        usable = self.usable
        counts, left = usable.counts[rows], usable.usable[rows]
        if ask.gpus:
            counts, left = counts - ask.gpus, left - ask.gpu_milli
        return Points(self.points(ask, rows, counts, left))

    def points(self, ask: Ask, rows: Ints, counts: Ints, left: Ints) -> Ints:
        """From the tables as they would be after placing; a row may be asked several times."""
        return self.round(self.gain(ask, rows, counts, left))

    def gain(self, ask: Ask, rows: Ints, counts: Ints, left: Ints) -> Ints:
        table = self.table
        after = self.wishes.worth(table.model[rows], table.cpu[rows] - ask.cpu, counts, left)
        return self.wishes.total * ask.gpu_milli - self.usable.worth[rows] + after

    def round(self, gain: Ints) -> Ints:
        return gain

    def _score_part(self, ask: Ask, rows: Ints) -> Points:
        at, device = np.nonzero(self.table.gpu[rows] >= ask.milli)
        row, before = rows[at], self.table.gpu[rows[at], device]
        after, wishes, usable = before - ask.milli, self.wishes, self.usable
        counts = usable.counts[row] - wishes.counted[before] + wishes.counted[after]
        left = usable.usable[row] - wishes.usable[before] + wishes.usable[after]
        points = self.points(ask, row, counts, left)
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        best = np.maximum.reduceat(points, starts)
        width = self.table.gpu.shape[1]
        first = np.minimum.reduceat(np.where(points == best[at], device, width), starts)
        return Points(best, first)


class Fgd(FgdExact):
    """⌊100 · sigmoid(ΔF / 1000)⌋."""

    name = "fgd"

    def round(self, gain: Ints) -> Ints:
        exponent = np.clip(gain / (max(self.wishes.total, 1) * WHOLE), -500, 500)
        return np.floor(MOST / (1 + np.exp(-exponent))).astype(np.int64)
