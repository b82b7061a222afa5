"""Readings of devices as plain values, for the API. `None` is "not measured"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from apps.clusters.models import Cluster
from apps.planner.inventory import Node
from apps.prometheus.readings import Unit
from apps.telemetry.queries import DeviceReading, device_readings


def readings_by_gpu(cluster: Cluster, node: Node) -> dict[str, list[dict[str, Any]]]:
    """By `Gpu.key`: one row for the GPU, or one per MIG instance of it."""
    return {key: unit_rows(reading) for key, reading in device_readings(cluster, node).items()}


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
