"""Reads exporters' text, Prometheus' answers and nvidia-smi's CSV, without database or cluster."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import CommandParser

from apps.clusters.answering import OfflineCommand
from apps.clusters.input_files import name_of, read_file
from apps.prometheus.answer import answer_of
from apps.prometheus.errors import MetricsError
from apps.prometheus.reading import read_metrics


class Command(OfflineCommand):
    help = "Read what was measured of GPUs: an exporter's text, an answer of Prometheus, or nvidia-smi's CSV."
    errors = (MetricsError,)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("file", help="text, JSON or CSV; - reads standard input")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        path = options["file"]
        answer = answer_of(read_metrics(name_of(path), read_file(path)))
        if options["json"]:
            self.stdout.write(json.dumps(answer, allow_nan=False))
        else:
            self.tell(as_text(answer))


def as_text(answer: dict[str, Any]) -> str:
    count = answer["physical_gpus"]
    lines = [f"{answer['dialect']}: {count} physical {'GPU' if count == 1 else 'GPUs'}"]
    rows: list[tuple[str, ...]] = [("DEVICE", "MODEL", "USED MiB", "FREE MiB", "BUSY", "POWER", "HELD BY")]
    for device in answer["devices"]:
        for unit in device["units"] or [{}]:
            rows.append(_row(device, unit))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines += [f"warning: {one}" for one in answer["warnings"]]
    return "\n".join(lines)


def _row(device: dict[str, Any], unit: dict[str, Any]) -> tuple[str, ...]:
    name = device["name"] + (f"/gi{unit['instance']} {unit['profile'] or ''}" if unit.get("instance") else "")
    busy, power = unit.get("utilisation_percent"), device["power_watts"]
    held = ", ".join(f"{one['namespace']}/{one['pod']}" for one in unit.get("workloads", ()))
    if unit.get("allocated_mib") is not None:
        held = f"{held} (dealt out {unit['allocated_mib']:,.0f} MiB)".strip()
    if device["no_data_since"] is not None:
        held = "no data since its last sample"
    return (
        name.strip(),
        device["model"] or device["vendor"] or "unknown",
        _number(unit.get("used_mib")),
        _number(unit.get("free_mib")),
        "not measured" if busy is None else f"{busy:.0f} %",
        "not measured" if power is None else f"{power:.0f} W",
        held or (f"(placeholder {unit['placeholder']})" if unit.get("placeholder") else "nobody told"),
    )


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.0f}"
