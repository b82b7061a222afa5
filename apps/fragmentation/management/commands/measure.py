"""The fragmentation report of a dump or a trace, without database or cluster."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from apps.clusters.answering import OfflineCommand
from apps.fragmentation.offline import add_source_arguments, open_source, read_workload
from apps.planner.counting import GpuCounts, count_gpus, counts_to_dict
from apps.planner.fragmentation import FragmentationReport, measure, report_to_dict
from apps.planner.mig.measuring import MigReport, measure_mig, mig_report_to_dict

MOST_SHAPES = 8


class Command(OfflineCommand):
    help = "Measure how fragmented the GPUs of a dump or a trace are."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_source_arguments(parser)
        parser.add_argument("--workload", metavar="CSV", help="pods that are wanted; default: the dump's own")

    def handle(self, *args: Any, **options: Any) -> None:
        snapshot = open_source(options)
        wanted = read_workload(options["workload"]) if options["workload"] else None
        mig = measure_mig(snapshot)
        report = measure(snapshot, wanted, mig)
        counts = count_gpus(snapshot)
        answer = {
            **report_to_dict(report, by_node=True),
            "gpus": counts_to_dict(counts),
            "mig": mig_report_to_dict(mig),
        }
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_text(report, mig, counts))


def as_text(report: FragmentationReport, mig: MigReport, counts: GpuCounts) -> str:
    gang = report.largest_gang
    lines = [
        f"GPUs: {counts.physical} physical, {counts.schedulable} schedulable, "
        f"{counts.allocated_milli / 1000:.2f} allocated, {counts.free} free, "
        f"{counts.stranded_milli / 1000:.2f} of no use to any pod",
        f"Idle: {report.idle_milli / 1000:.2f} of {report.total_milli / 1000:.0f} GPUs",
        f"Fragmented: {report.fragmentation_milli / 1000:.2f} GPUs ({report.ratio:.1%} of what is idle)",
        *(f"  {name.replace('_', ' ')}: {milli / 1000:.2f}" for name, milli in report.by_cause.items()),
        f"Stranded: {report.stranded_gpus:.2f} GPUs that no {report.stranded_by} shape can use",
        "Free nodes: "
        + (", ".join(f"{n} of {size} GPUs" for size, n in report.free_nodes.items()) or "none"),
        f"Largest gang now: {gang.pods} pods of {gang.gpus_per_pod} GPUs (link {gang.link})",
        *_say_beside(report),
    ]
    if mig.memory_slices or mig.idle:
        idle = ", ".join(f"{number} x {profile}" for profile, number in mig.idle.items())
        more = ", ".join(f"{number} x {profile}" for profile, number in mig.more.items() if number)
        lines.append(f"MIG: {mig.uncut} of {mig.memory_slices} memory slices uncut; idle: {idle or 'none'}")
        lines.append(f"MIG, as cut now, each profile alone: {more or 'no more instances'} would fit")
    return "\n".join([*lines, *report.warnings, *mig.warnings])


def _say_beside(report: FragmentationReport) -> list[str]:
    """Each under its own name: none of it is part of FGD's figures."""
    found = report.beside
    groups = "; ".join(
        f"{link} {' / '.join(str(count) for count in sizes.values())}"
        for link, sizes in found.link_groups.items()
    )
    lines = [f"Groups of 2 / 4 / 8 free GPUs that fit, by link: {groups}"]
    if found.whole_mib or found.shared_mib:
        lines.append(
            f"GPU memory left: {found.whole_mib} MiB on free GPUs, {found.shared_mib} MiB on shared ones, "
            f"{found.crumbs_mib} MiB of it less than any wanted share"
        )
    for share, count in found.fitting:
        memory = "" if share.memory_mib is None else f", {share.memory_mib} MiB"
        size = f"{share.gpus} x {share.milli} milli-GPU{memory}"
        lines.append(f"Shares that fit: {count} of {size} (wanted by {share.pods} pods)")
    for shape in report.startable[:MOST_SHAPES]:
        least = "at most " if shape.at_most else ""
        lines.append(
            f"Could start now: {least}{shape.pods} of {shape.waiting} waiting pods like {shape.workload} "
            f"({shape.gpus_per_pod} x {shape.milli} milli-GPU)"
        )
    beyond = len(report.startable) - MOST_SHAPES
    return [*lines, f"and {beyond} more shapes that wait: see --json"] if beyond > 0 else lines
