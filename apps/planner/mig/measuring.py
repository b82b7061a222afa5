"""How fragmented the GPUs are that MIG has cut: per profile, how many more fit as they are cut now.

A measure of its own, never mixed with FGD. Not in here: what could fit after a change (planning).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from apps.planner.inventory import Gpu, Node
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.layouts import Cut, how_many_more, uncut_slices, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import read_use
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """more: by profile, how many more instances fit by start slice, each profile taken alone."""

    node: str
    gpu: str
    index: int
    model: str
    uncut: int
    more: dict[str, int]


@dataclass(slots=True)
class MigReport:
    """Of open nodes. idle: instances that nobody asked for; more: summed over `gpus`.

    memory_slices: of the GPUs that are cut; uncut: those without an instance. warnings: GPUs whose
    start slices or tables are not known, which count in `idle` only.
    """

    memory_slices: int = 0
    uncut: int = 0
    idle: dict[str, int] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)
    gpus: list[GpuRoom] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


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
    more: Counter[str] = Counter()
    for room in report.gpus:
        more.update(room.more)
    report.more = dict(sorted(more.items()))
    return report


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
    more = {profile.name: how_many_more(model, layout, profile.name) for profile in model.profiles}
    uncut = uncut_slices(model, layout)
    report.memory_slices += model.axis
    report.uncut += uncut
    report.gpus.append(GpuRoom(node.name, gpu.uuid or str(gpu.index), gpu.index, model.name, uncut, more))


def mig_report_to_dict(report: MigReport) -> dict[str, object]:
    """As the `measure` command answers, under "mig"."""
    return {
        "memory_slices": report.memory_slices,
        "uncut_memory_slices": report.uncut,
        "idle": dict(report.idle),
        "more_fit": dict(report.more),
        "gpus": [
            {
                "node": room.node,
                "gpu": room.gpu,
                "index": room.index,
                "model": room.model,
                "uncut_memory_slices": room.uncut,
                "more_fit": dict(room.more),
            }
            for room in report.gpus
        ],
        "warnings": list(report.warnings),
    }
