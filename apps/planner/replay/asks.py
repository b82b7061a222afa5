"""What one pod of a trace asks for, read from the trace's rows; and the target workload of all of them.

Not in here: in which order the pods arrive (arrivals), and who takes them (nodes, policies).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.planner.trace import Row, read_amount, read_models, read_share, read_text
from apps.planner.workload import Spec, Workload, most_popular

WHOLE = 1000


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod's wishes. cpu in milli-CPU, memory in MiB, milli of each GPU, gpus 0 for a CPU-only pod.

    A part of a GPU (0 < milli < 1000) is always one GPU's. models: the allowed ones, empty allows every
    model.
    """

    cpu: int
    memory: int
    milli: int = 0
    gpus: int = 0
    models: tuple[str, ...] = ()

    @property
    def is_part(self) -> bool:
        return 0 < self.milli < WHOLE

    @property
    def gpu_milli(self) -> int:
        return self.milli * self.gpus

    @property
    def spec(self) -> Spec:
        return Spec(self.cpu, self.milli, self.gpus, "|".join(self.models) if self.gpus else "")


def read_asks(pod_rows: Iterable[Row]) -> tuple[Ask, ...]:
    """Columns: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec (optional). Raises ValueError naming the
    row. Equal rows share one object."""
    seen: dict[Ask, Ask] = {}
    return tuple(
        seen.setdefault(ask, ask)
        for ask in (_read_ask(row, number) for number, row in enumerate(pod_rows, start=2))
    )


def workload_of(asks: Sequence[Ask]) -> Workload:
    """The most popular specs until they cover 95 % of the pods."""
    counts = Counter[Spec]()
    for ask, number in Counter(asks).items():
        counts[ask.spec] += number
    return most_popular(counts)


def _read_ask(row: Row, number: int) -> Ask:
    read_text(row, "name", "pods", number)
    gpus, milli = read_share(row, number)
    return Ask(
        cpu=read_amount(row, "cpu_milli", "pods", number),
        memory=read_amount(row, "memory_mib", "pods", number),
        milli=milli,
        gpus=min(gpus, 1) if milli < WHOLE else gpus,
        models=read_models(row),
    )
