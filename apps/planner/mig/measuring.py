"""How fragmented the GPUs are that MIG has cut: per profile, how many more fit as they are cut now.

A measure of its own, never mixed with FGD. Not in here: what could fit after a change (planning).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from apps.planner.inventory import Gpu, Node
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.layouts import Cut, free_starts, how_many_more, uncut_slices, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import read_use
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """One GPU as it is cut now. more: by profile, how many more instances fit, each profile taken alone;
    starts: by profile, the start slices at which one would fit. uncut_at: memory slices without instance."""

    node: str
    gpu: str
    index: int
    model: str
    uncut: int
    more: dict[str, int]
    memory_slices: int = 0
    uncut_at: tuple[int, ...] = ()
    starts: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class MigRoom:
    """The sums over some GPUs. uncut_at: memory slice -> GPUs on which it is uncut; starts: profile -> start
    slice -> GPUs that would take one more instance there."""

    memory_slices: int = 0
    uncut: int = 0
    more: Counter[str] = field(default_factory=Counter)
    uncut_at: Counter[int] = field(default_factory=Counter)
    starts: dict[str, Counter[int]] = field(default_factory=dict)


@dataclass(slots=True)
class MigReport:
    """Of open nodes. idle: instances that nobody asked for; room: summed over `gpus`, which are cut.

    warnings: GPUs whose start slices or tables are not known, which count in `idle` only.
    """

    idle: dict[str, int] = field(default_factory=dict)
    gpus: list[GpuRoom] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    room: MigRoom = field(default_factory=MigRoom)

    @property
    def memory_slices(self) -> int:
        return self.room.memory_slices

    @property
    def uncut(self) -> int:
        return self.room.uncut

    @property
    def more(self) -> dict[str, int]:
        return dict(sorted(self.room.more.items()))


def measure_mig(snapshot: Snapshot) -> MigReport:
    report = MigReport()
    idle: Counter[str] = Counter()
    for name in sorted(snapshot.nodes):
        node = snapshot.nodes[name]
        offered = offered_profiles(node)
        if not is_open_node(node) or not (offered or any(gpu.instances for gpu in node.gpus)):
            continue
        if offered:
            idle.update(read_use(node, snapshot.pods_on(name)).idle)
        _measure_node(report, node)
    report.idle = dict(sorted(idle.items()))
    report.room = sum_up(report.gpus)
    return report


def sum_up(gpus: Iterable[GpuRoom]) -> MigRoom:
    total = MigRoom()
    for one in gpus:
        total.memory_slices += one.memory_slices
        total.uncut += one.uncut
        total.more.update(one.more)
        total.uncut_at.update(one.uncut_at)
        for profile, starts in one.starts.items():
            total.starts.setdefault(profile, Counter()).update(starts)
    return total


def _measure_node(report: MigReport, node: Node) -> None:
    try:
        model = find_model(node.model, next((gpu.memory_mib for gpu in node.gpus), None))
    except UnknownModel as error:
        report.warnings.append(f"{node.name}: {error}")
        return
    cut = [gpu for gpu in node.gpus if gpu.instances and gpu.healthy]
    if not cut:
        report.warnings.append(f"{node.name}: which GPU has which MIG instances is not known.")
    for gpu in cut:
        layout = tuple(sorted(Cut(one.start_slice or 0, one.profile) for one in gpu.instances))
        if any(one.start_slice is None for one in gpu.instances):
            report.warnings.append(f"{node.name}, GPU {gpu.index}: the start slices are not known.")
        elif why_illegal(model, layout):
            report.warnings.append(f"{node.name}, GPU {gpu.index}: {why_illegal(model, layout)}")
        else:
            _measure_gpu(report, node, gpu, model, layout)


def _measure_gpu(report: MigReport, node: Node, gpu: Gpu, model: MigModel, layout: tuple[Cut, ...]) -> None:
    more, uncut_at, starts = _room_beside(model, layout)
    report.gpus.append(
        GpuRoom(
            node=node.name,
            gpu=gpu.uuid or str(gpu.index),
            index=gpu.index,
            model=model.name,
            uncut=uncut_slices(model, layout),
            more=dict(more),
            memory_slices=model.axis,
            uncut_at=uncut_at,
            starts=dict(starts),
        )
    )


@lru_cache(maxsize=4096)
def _room_beside(
    model: MigModel, layout: tuple[Cut, ...]
) -> tuple[dict[str, int], tuple[int, ...], dict[str, tuple[int, ...]]]:
    """As in `GpuRoom`: what fits by profile, memory slices without an instance, start slices by profile."""
    taken = {
        at for cut in layout for at in range(cut.start, cut.start + model.by_name[cut.profile].memory_slices)
    }
    names = [profile.name for profile in model.profiles]
    return (
        {name: how_many_more(model, layout, name) for name in names},
        tuple(at for at in range(model.axis) if at not in taken),
        {name: free_starts(model, layout, name) for name in names},
    )


def mig_room_to_dict(room: MigRoom) -> dict[str, object]:
    """Memory slices and start slices are keys, as text."""
    return {
        "memory_slices": room.memory_slices,
        "uncut_memory_slices": room.uncut,
        "uncut_by_start": {str(at): room.uncut_at[at] for at in sorted(room.uncut_at)},
        "more_fit": dict(sorted(room.more.items())),
        "more_fit_by_start": {
            profile: {str(at): starts[at] for at in sorted(starts)}
            for profile, starts in sorted(room.starts.items())
            if starts
        },
    }


def mig_report_to_dict(report: MigReport) -> dict[str, object]:
    """As the `measure` command answers, under "mig"."""
    return {
        **mig_room_to_dict(report.room),
        "idle": dict(report.idle),
        "gpus": [
            {
                "node": one.node,
                "gpu": one.gpu,
                "index": one.index,
                "model": one.model,
                "uncut_memory_slices": one.uncut,
                "more_fit": dict(one.more),
                "more_fit_at": {profile: list(starts) for profile, starts in one.starts.items() if starts},
            }
            for one in report.gpus
        ],
        "warnings": list(report.warnings),
    }
