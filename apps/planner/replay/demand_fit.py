"""Our own policy: lose the least of what the target workload can still use, spare scarce GPU models, keep CPU
and GPUs in proportion and free nodes free.

points = ⌊100 · sigmoid((ΔF − scarcity(t) · g) / 1000)⌋ for a node of GPU model t and a pod that asks for g
milli-GPU; ΔF as in FGD. Equal points are decided by balance, then by the fixed order of the nodes.

- scarcity(t): how much of the model's GPUs those pods would fill that are bound to some models, if pods asked
  for as many GPUs as there are: each such pod's milli-GPU are spread evenly over the GPUs of the models it
  allows. From 0, where nobody names models, to 1, where no pod should run that could run elsewhere.
- balance: r is the mean CPU per GPU of the target workload's GPU pods; a node's surplus is what is left of
  its CPU, less r for each idle GPU, after placing. A GPU pod that asks for more CPU per GPU than r goes to
  the greatest surplus, one that asks for less to the smallest. A CPU-only pod goes to nodes without GPUs,
  then anywhere but into a deficit (a surplus below 0 counts, above it does not). On a wholly free node of
  several GPUs the balance is less by r.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.replay.fgd import Fgd
from apps.planner.replay.nodes import Ints, NodeTable
from apps.planner.replay.policies import Points
from apps.planner.workload import Spec, Workload

STEP = 2**40
"""Between two points, more than a balance can be."""


class DemandFit(Fgd):
    name = "demand-fit"

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        wanted = [(spec, count) for spec, count in workload.specs if spec.gpus]
        self.price = _price_models(table, wanted, self.wishes.total)
        self.milli_asked = max(1, sum(count * spec.milli * spec.gpus for spec, count in wanted))
        self.cpu_asked = sum(count * spec.cpu for spec, count in wanted)
        self.all_milli = np.where(table.size > 1, table.size * WHOLE, -1)

    def score(self, ask: Ask, rows: Ints) -> Points:
        scored = super().score(ask, rows)
        return Points(scored.points * STEP + self._balance(ask, rows), scored.devices)

    def _balance(self, ask: Ask, rows: Ints) -> Ints:
        """In milli-CPU, after placing."""
        idle = self.table.idle[rows]
        needed = (idle - ask.gpu_milli) * self.cpu_asked // self.milli_asked
        balance = self.table.cpu[rows] - ask.cpu - needed
        if ask.gpus:
            balance *= _sign(ask.cpu * self.milli_asked - ask.gpu_milli * self.cpu_asked)
        else:
            balance = np.minimum(balance, 0) + (self.table.size[rows] == 0)
        balance -= (idle == self.all_milli[rows]) * (WHOLE * self.cpu_asked // self.milli_asked)
        return balance

    def _gain(self, ask: Ask, rows: Ints, serving: Ints) -> Ints:
        gain = super()._gain(ask, rows, serving)
        return gain - self.price[self.table.model[rows]] * ask.gpu_milli


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _price_models(table: NodeTable, wanted: Iterable[tuple[Spec, int]], total: int) -> Ints:
    """Scarcity by model code, in counts of the target workload (`total` is a scarcity of 1)."""
    wanted = list(wanted)
    milli = np.bincount(table.model, weights=table.size * WHOLE, minlength=len(table.models))
    asked = sum(count * spec.milli * spec.gpus for spec, count in wanted)
    filled = np.zeros(len(table.models))
    for spec, count in wanted:
        allowed = np.array([model in spec.models.split("|") for model in table.models])
        reach = milli[allowed].sum()
        if spec.models and reach > 0:
            filled[allowed] += count * spec.milli * spec.gpus * milli.sum() / (asked * reach)
    return np.rint(np.minimum(filled, 1.0) * total).astype(np.int64)
