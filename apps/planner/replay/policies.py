"""The placement policies of a replay behind one interface: points per node, most points win.

Points are whole numbers, as the published artifact's schedulers give them; equal points are decided by the
fixed order of the nodes. Normalisers: 128,000 milli-CPU and 8,000 milli-GPU. Not in here: FGD (fgd) and our
own policy (demand_fit).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.replay.nodes import Ints, NodeTable, Seat, kind_of
from apps.planner.workload import Workload

CPU_NORM, GPU_NORM = 128_000, 8_000
MOST = 100


@dataclass(frozen=True, slots=True)
class Points:
    """Per asked row: the points, and (where the policy chooses it) the index of the GPU for a part."""

    points: Ints
    devices: Ints | None = None


class Policy:
    """Sees the nodes, the pod at hand and the target workload; never what arrives later.

    draws: whether one of the fitting nodes (and GPUs) is drawn instead of the one with most points.
    """

    name: ClassVar[str]
    draws: ClassVar[bool] = False

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        self.table = table
        self.workload = workload

    def score(self, ask: Ask, rows: Ints) -> Points:
        """rows: nodes that have room for the pod. The same state of a node always earns the same points."""
        raise NotImplementedError

    def refresh(self, row: int) -> None:
        """Called after the node of this row has changed."""

    def seat(self, ask: Ask, row: int, device: int | None) -> Seat:
        """The GPUs that the pod takes on this node: for a part `device`, else the tightest that fits."""
        if not ask.gpus:
            return Seat(row, ())
        if not ask.is_part:
            return Seat(row, self.table.whole_gpus(row, ask.gpus))
        return Seat(row, (self.table.tightest(row, ask.milli) if device is None else device,))


class Random(Policy):
    """Uniform over the fitting nodes and, for a part, over the fitting GPUs."""

    name = "random"
    draws = True

    def score(self, ask: Ask, rows: Ints) -> Points:
        return Points(np.zeros(len(rows), dtype=np.int64))


class FirstFit(Policy):
    """The first fitting node in the fixed order."""

    name = "first-fit"

    def score(self, ask: Ask, rows: Ints) -> Points:
        return Points(np.zeros(len(rows), dtype=np.int64))


class DotProduct(Policy):
    """⌊100 (1 − d/2)⌋, d = what is left times what is asked, both normalised, before placing."""

    name = "dot-product"

    def score(self, ask: Ask, rows: Ints) -> Points:
        cpu = (self.table.cpu[rows] / CPU_NORM) * (ask.cpu / CPU_NORM)
        gpu = (self.table.idle[rows] / GPU_NORM) * (ask.gpu_milli / GPU_NORM)
        return _floored(MOST * (1 - (cpu + gpu) / 2))


class BestFit(Policy):
    """⌊100 (1 − ½ CPU left − ½ GPU left)⌋, both normalised, after placing."""

    name = "best-fit"

    def score(self, ask: Ask, rows: Ints) -> Points:
        cpu = (self.table.cpu[rows] - ask.cpu) / CPU_NORM
        gpu = (self.table.idle[rows] - ask.gpu_milli) / GPU_NORM
        return _floored(MOST * (1 - 0.5 * cpu - 0.5 * gpu))


class Clustering(Policy):
    """Pods of one kind together: 75 where this kind runs alone, 50 among others, 25 where no GPU pod runs,
    plus ⌊25 (8000 − GPU left)/8000⌋. CPU-only pods 0."""

    name = "clustering"
    ALONE, AMONG, EMPTY, FULL = 75, 50, 25, 25

    def score(self, ask: Ask, rows: Ints) -> Points:
        if not ask.gpus:
            return Points(np.zeros(len(rows), dtype=np.int64))
        held = self.table.kinds[rows] > 0
        number = held.sum(axis=1)
        same = held[:, kind_of(ask)]
        fitting = np.where(same, np.where(number == 1, self.ALONE, self.AMONG), self.EMPTY * (number == 0))
        return Points(fitting + self.FULL * (GPU_NORM - self.table.idle[rows]) // GPU_NORM)


class Packing(Policy):
    """Started nodes before free ones, started GPUs before free ones. CPU-only pods 0."""

    name = "packing"

    def score(self, ask: Ask, rows: Ints) -> Points:
        if not ask.gpus:
            return Points(np.zeros(len(rows), dtype=np.int64))
        table = self.table
        free = table.whole[rows]
        taken = np.sort(np.where(table.gpu[rows] >= ask.milli, table.gpu[rows], WHOLE + 1), axis=1)
        taken = taken[:, : ask.gpus]
        fresh = (taken == WHOLE).sum(axis=1)
        crumbs = (taken * MOST // WHOLE).sum(axis=1) // 10
        started = np.where(fresh > 0, np.maximum(50 - fresh, 33), np.maximum(MOST - crumbs, 50))
        is_free = table.idle[rows] == table.size[rows] * WHOLE
        return Points(np.where(is_free, np.maximum(33 - free, free), started))


class TopologyScore(Policy):
    """The score of the scheduler extender: the share of the node's GPUs in use once the pod runs (of its
    CPU, for a pod without GPUs). A trace knows neither links nor MIG, so their bonuses do not show."""

    name = "topology-score"
    GRAIN = 10**6

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        self.all_cpu: Ints = np.array([node.cpu for node in table.nodes], dtype=np.int64)

    def score(self, ask: Ask, rows: Ints) -> Points:
        table = self.table
        if ask.gpus:
            have = table.size[rows] * WHOLE
            used = have - table.idle[rows] + ask.gpu_milli
        else:
            have = self.all_cpu[rows]
            used = have - table.cpu[rows] + ask.cpu
        return Points(used * self.GRAIN // np.maximum(have, 1))


def _floored(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Points:
    return Points(np.floor(values).astype(np.int64))


SIMPLE: Sequence[type[Policy]] = (
    *(Random, FirstFit, BestFit, Packing, DotProduct, Clustering),
    TopologyScore,
)
