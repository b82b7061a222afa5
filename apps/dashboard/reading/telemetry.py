"""What was measured of the devices, in words: the node page's table, low use, and why there is nothing.

"Not measured" is said as such, with its reason; it is neither 0 nor idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from apps.clusters.models import Cluster
from apps.dashboard.reading.words import plural
from apps.planner.inventory import Node
from apps.planner.snapshot import Snapshot
from apps.telemetry import queries as telemetry
from apps.telemetry.advice import LowUse
from apps.telemetry.holders import disagreements
from apps.telemetry.models import Source
from apps.telemetry.queries import DeviceReading

UNTOLD = "not measured"


@dataclass(frozen=True, slots=True)
class Line:
    """A GPU or a MIG instance. busy, average: percent in words; the notes say on what, or why not."""

    name: str
    memory: str
    memory_note: str
    busy: str
    busy_note: str
    average: str
    average_note: str
    is_low: bool
    power: str
    heat: str
    holder: str
    holder_note: str


@dataclass(frozen=True, slots=True)
class NodeTelemetry:
    """source: host of the Prometheus, "" if none is connected. trouble: why it is not read, since when.

    untold: GPUs that no series speaks of. drift: where exporter and holders do not agree.
    """

    source: str
    taken_at: datetime | None
    is_stale: bool
    trouble: str
    failed_at: datetime | None
    lines: tuple[Line, ...]
    untold: str
    drift: tuple[str, ...]


def tell_node(cluster: Cluster, picture: Snapshot, node: Node) -> NodeTelemetry:
    source = telemetry.source_of(cluster)
    opened = telemetry.open_telemetry(cluster) if source is not None else None
    if source is None or opened is None:
        return NodeTelemetry(_host(source), None, False, *_trouble(source), (), "", ())
    gpus = telemetry.devices_on(node)
    readings = telemetry.readings_of(opened, node, gpus)
    lines = [line for gpu in gpus if gpu.key in readings for line in _lines(gpu.index, readings[gpu.key])]
    untold = len(gpus) - len(readings)
    devices = {key: reading.device for key, reading in readings.items()}
    pods = {pod.uid: pod for pod in picture.pods_on(node.name)}
    return NodeTelemetry(
        _host(source),
        opened.taken_at,
        opened.is_stale,
        *_trouble(source),
        tuple(lines),
        f"No series speaks of {plural(untold, 'GPU')} of this node." if untold else "",
        _drift(node, devices, pods, opened.taken_at.timestamp()),
    )


def _drift(node: Node, devices: Any, pods: Any, at: float) -> tuple[str, ...]:
    """Unless the picture itself has told already that the exporter does not agree."""
    is_told = any("exporter" in warning for warning in node.warnings)
    return () if is_told else disagreements(node, devices, pods, at=at)


def _host(source: Source | None) -> str:
    return urlsplit(source.address).netloc if source is not None else ""


def _trouble(source: Source | None) -> tuple[str, datetime | None]:
    return (source.error, source.failed_at) if source is not None else ("", None)


def _lines(index: int, reading: DeviceReading) -> list[Line]:
    device = reading.device
    lines = []
    for unit in device.units:
        use = reading.use[unit.instance]
        holder, note = _holder(reading, unit)
        lines.append(
            Line(
                name=f"{index}"
                + (f" · {unit.profile or 'instance'} ({unit.instance})" if unit.instance else ""),
                memory=_memory(unit.used_mib, unit.total_mib),
                memory_note=unit.missing.get("used_mib", "") or unit.total_note,
                busy=_percent(unit.utilisation),
                busy_note=unit.missing.get("utilisation", "") or unit.utilisation_metric,
                average=_percent(use.average),
                average_note=use.reason or f"over {use.minutes} of {use.of} minutes",
                is_low=use.is_low(settings.LOW_USE_PERCENT),
                power=UNTOLD if device.power_watts is None else f"{device.power_watts:,.0f} W",
                heat="" if device.temperature_c is None else f"{device.temperature_c:.0f} °C",
                holder=holder,
                holder_note=note,
            )
        )
    return lines


def _holder(reading: DeviceReading, unit: Any) -> tuple[str, str]:
    device = reading.device
    if device.silent_since is not None:
        since = datetime.fromtimestamp(device.silent_since, UTC)
        return "", f"no data since {since:%H:%M} UTC"
    note = f"last XID {device.xid}" if device.xid else ""
    if unit.workloads:
        return ", ".join(one.key for one in unit.workloads), note
    if unit.placeholder:
        return "", f"{unit.placeholder}, a placeholder"
    return "", note


def _memory(used: float | None, total: float | None) -> str:
    if used is None:
        return UNTOLD
    return f"{used:,.0f} of {total:,.0f} MiB" if total is not None else f"{used:,.0f} MiB"


def _percent(value: float | None) -> str:
    return UNTOLD if value is None else f"{value:.0f} %"


@dataclass(frozen=True, slots=True)
class LowUsePanel:
    """found: None while nothing is worked out; is_connected: whether a Prometheus is there to tell it.
    trouble, failed_at: why that is not read, since when."""

    is_live: bool
    is_connected: bool
    trouble: str
    failed_at: datetime | None
    below: str
    minutes: int
    found: LowUse | None = None
    taken_at: datetime | None = None


def tell_low_use(cluster: Cluster) -> LowUsePanel:
    source = telemetry.source_of(cluster)
    known = telemetry.low_use_of(cluster) if source is not None else None
    found, taken_at = known or (None, None)
    return LowUsePanel(
        cluster.is_live,
        source is not None,
        *_trouble(source),
        f"{settings.LOW_USE_PERCENT:g} %",
        settings.TELEMETRY_WINDOW_MINUTES,
        found,
        taken_at,
    )
