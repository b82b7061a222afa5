"""Our own policy: lose the least of what the target workload can still use, spare scarce GPU models, and keep
CPU and GPUs in proportion.

points = ⌊100 · sigmoid((ΔF − scarcity(t) · g) / 1000)⌋ for a node of GPU model t and a pod that asks for g
milli-GPU; ΔF as in FGD. Equal points are decided by balance, then by the fixed order of the nodes.

- scarcity(t): how much of the model's GPUs those pods would fill that are bound to some models, if pods asked
  for as many GPUs as there are: each such pod's milli-GPU are spread evenly over the GPUs of the models it
  allows. From 0, where nobody names models, to 1, where no pod should run that could run elsewhere; times
  SHARE_OF_SCARCITY.
- balance: r is the mean CPU per GPU of the target workload's GPU pods, s = CPU left − r · idle GPUs after
  placing, the node's surplus. A pod that asks for more CPU per GPU than r (a CPU-only pod always does) goes
  to the greatest surplus, one that asks for less to the smallest: so neither is left over alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from apps.planner.replay.asks import WHOLE, Ask
from apps.planner.replay.fgd import Fgd
from apps.planner.replay.nodes import Ints, NodeTable
from apps.planner.replay.policies import Points
from apps.planner.workload import Spec, Workload

SHARE_OF_SCARCITY = (7, 10)
STEP = 2**40
"""Between two points; balance stays below half of it."""
MOST_BALANCE = STEP // 2 - 1


class DemandFit(Fgd):
    name = "demand-fit"

    def __init__(self, table: NodeTable, workload: Workload) -> None:
        super().__init__(table, workload)
        wanted = [(spec, count) for spec, count in workload.specs if spec.gpus]
        self.price = _price_models(table, wanted, self.wishes.total)
        self.milli_asked = sum(count * spec.milli * spec.gpus for spec, count in wanted)
        self.cpu_asked = sum(count * spec.cpu for spec, count in wanted)

    def score(self, ask: Ask, rows: Ints) -> Points:
        scored = super().score(ask, rows)
        cpu = self.table.cpu[rows] - ask.cpu
        idle = self.table.idle[rows] - ask.gpu_milli
        surplus = cpu - idle * self.cpu_asked // max(self.milli_asked, 1)
        surplus *= _sign(ask.cpu * self.milli_asked - ask.gpu_milli * self.cpu_asked)
        return Points(scored.points * STEP + surplus.clip(-MOST_BALANCE, MOST_BALANCE), scored.devices)

    def _gain(self, ask: Ask, rows: Ints, serving: Ints) -> Ints:
        gain = super()._gain(ask, rows, serving)
        return gain - self.price[self.table.model[rows]] * ask.gpu_milli


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _price_models(table: NodeTable, wanted: Iterable[tuple[Spec, int]], total: int) -> Ints:
    """Scarcity by model code, in counts of the target workload (`total` is a scarcity of 1)."""
    milli = np.bincount(table.model, weights=table.size * WHOLE, minlength=len(table.models))
    asked = sum(count * spec.milli * spec.gpus for spec, count in wanted)
    filled = np.zeros(len(table.models))
    for spec, count in wanted:
        allowed = np.array([not spec.models or model in spec.models.split("|") for model in table.models])
        reach = milli[allowed].sum()
        if spec.models and reach > 0:
            filled[allowed] += count * spec.milli * spec.gpus * milli.sum() / (asked * reach)
    part, whole = SHARE_OF_SCARCITY
    return np.rint(np.minimum(filled, 1.0) * total * part / whole).astype(np.int64)
