"""How much of a node's idle GPUs the target workload can use: FGD's measure as a table that follows changes.

With W the sum of the counts and I the idle milli, FGD's numerator of a node is W·I − U, where U adds
count × (Σ of the g_i ≥ milli) over the specs that fit. Specs with the same GPU wish are one column ("wish");
per GPU model and CPU threshold a column's counts are summed once, so U is one dot product per node. All
integers. Not in here: points of a policy (fgd).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.planner.replay.asks import WHOLE
from apps.planner.replay.nodes import Ints, NodeTable
from apps.planner.workload import Spec, Workload


class Wishes:
    """The target workload, ordered for quick sums over many nodes.

    milli, number: the GPU wish of each column. thresholds: the CPU wishes, ascending; a node of `cpu` left
    is in tier searchsorted(thresholds, cpu, "right"), which serves every spec of a lower tier.
    """

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        self.models = table.models
        self.total = workload.weight_total
        self.specs = [(spec, count) for spec, count in workload.specs if spec.gpus]
        wishes = sorted({(spec.milli, spec.gpus) for spec, _ in self.specs})
        self.columns = {wish: at for at, wish in enumerate(wishes)}
        self.milli = np.array([milli for milli, _ in wishes], dtype=np.int64)
        self.number = np.array([number for _, number in wishes], dtype=np.int64)
        self.thresholds = np.unique(np.array([spec.cpu for spec, _ in self.specs], dtype=np.int64))
        left = np.arange(WHOLE + 1)[:, None]
        counted: Ints = (left >= self.milli).astype(np.int64)
        self.serving: Ints = np.concatenate([counted, counted * left], axis=1)
        """By what is left of a GPU: per wish 1 if it serves the wish, then per wish what it serves with."""
        self._weights: Ints = np.zeros((64, len(wishes)), dtype=np.int64)
        self._lines: npt.NDArray[np.int64] = np.full((len(self.models), len(self.thresholds) + 1), -1)
        self._used = 0

    def worth(self, model: Ints, cpu: Ints, serving: Ints) -> Ints:
        """U per row. serving: the sum of `self.serving` over the GPUs of each row."""
        width = len(self.milli)
        worth = self._counts_of(model, self.thresholds.searchsorted(cpu, side="right"))
        worth *= serving[:, width:]
        worth *= serving[:, :width] >= self.number
        return worth.sum(axis=1)

    def _counts_of(self, model: Ints, tier: Ints) -> Ints:
        """Per row and wish, the pods of the target workload that this model and CPU would do for."""
        lines = self._lines[model, tier]
        if (lines < 0).any():
            for code, at in {(int(model[i]), int(tier[i])) for i in np.flatnonzero(lines < 0)}:
                self._add_line(code, at)
            lines = self._lines[model, tier]
        return self._weights.take(lines, axis=0)

    def _add_line(self, code: int, tier: int) -> None:
        if self._used == len(self._weights):
            self._weights = np.concatenate([self._weights, np.zeros_like(self._weights)])
        line = self._weights[self._used]
        most = self.thresholds[tier - 1] if tier else -1
        for spec, count in self.specs:
            if spec.cpu <= most and _allows(spec, self.models[code]):
                line[self.columns[spec.milli, spec.gpus]] += count
        self._lines[code, tier] = self._used
        self._used += 1


class Usable:
    """U of every node, with the sums it is made of; `refresh` follows one node's change."""

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        self.table = table
        self.wishes = Wishes(table, workload)
        self.serving: Ints = self.wishes.serving[table.gpu].sum(axis=1)
        self.worth = self.wishes.worth(table.model, table.cpu, self.serving)

    @property
    def numerator(self) -> int:
        """FGD's numerator of the cluster: counts × milli."""
        return self.wishes.total * int(self.table.idle.sum()) - int(self.worth.sum())

    def refresh(self, row: int) -> None:
        table, at = self.table, slice(row, row + 1)
        self.serving[row] = self.wishes.serving.take(table.gpu[row], axis=0).sum(axis=0)
        self.worth[at] = self.wishes.worth(table.model[at], table.cpu[at], self.serving[at])


def _allows(spec: Spec, model: str) -> bool:
    return not spec.models or model in spec.models.split("|")
