"""Readings of devices as plain values, for the API. `None` is "not measured"."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from apps.clusters.models import Cluster
from apps.planner.inventory import Gpu, Node
from apps.prometheus.readings import Unit
from apps.telemetry.queries import DeviceReading, Telemetry, devices_on, open_telemetry, readings_of


def readings_told(cluster: Cluster) -> tuple[datetime | None, Callable[[Node], list[dict[str, Any]]]]:
    """For what is told of a node: when it was measured, and a row for each of its devices."""
    telemetry = open_telemetry(cluster)
    if telemetry is None:
        return None, lambda node: []
    return telemetry.taken_at, lambda node: [device_row(telemetry, node, gpu) for gpu in devices_on(node)]


def device_row(telemetry: Telemetry | None, node: Node, gpu: Gpu) -> dict[str, Any]:
    found = readings_of(telemetry, node, [gpu]) if telemetry is not None else {}
    units = [row for reading in found.values() for row in unit_rows(reading)]
    return {"node": node.name, "index": gpu.index, "uuid": gpu.uuid, "units": units}


def unit_rows(reading: DeviceReading) -> list[dict[str, Any]]:
    return [_row(reading, unit) for unit in reading.device.units]


def _row(reading: DeviceReading, unit: Unit) -> dict[str, Any]:
    device, use = reading.device, reading.use[unit.instance]
    missing = {**device.missing, **unit.missing}
    if use.average is None:
        missing["average"] = use.reason
    return {
        "instance": unit.instance,
        "profile": unit.profile,
        "used_mib": unit.used_mib,
        "free_mib": unit.free_mib,
        "reserved_mib": unit.reserved_mib,
        "total_mib": unit.total_mib,
        "utilisation_percent": unit.utilisation,
        "utilisation_from": unit.utilisation_metric,
        "average_percent": use.average,
        "minutes_measured": use.minutes,
        "is_low_use": None if use.average is None else use.is_low(settings.LOW_USE_PERCENT),
        "power_watts": device.power_watts,
        "temperature_celsius": device.temperature_c,
        "last_xid": device.xid,
        "workloads": [one.key for one in unit.workloads],
        "placeholder": unit.placeholder,
        "not_measured": missing,
        "no_data_since": _time(device.silent_since),
        "taken_at": reading.taken_at,
    }


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
