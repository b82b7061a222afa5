"""What a text about metrics says, as plain values: the answer of `read_metrics`. Pure.

`None` is "not measured". Keys of `fb_mib` are "gpu0" or, for a MIG instance, "gpu0/gi9"; where two devices
would have the same key, their host or UUID stands before it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from apps.prometheus.metric_names import ALIASES, GPU_UTIL, today
from apps.prometheus.reading import SMI, Metrics
from apps.prometheus.readings import Device, Unit
from apps.prometheus.smi_csv import SmiTable

MOST_WARNINGS = 50
_WORDS = {"hygon": "dcu", "cambricon": "mlu", "ascend": "npu"}


def answer_of(metrics: Metrics) -> dict[str, Any]:
    labels = _names_of(metrics.devices)
    answer: dict[str, Any] = {
        "dialect": metrics.dialect,
        "physical_gpus": len(metrics.devices),
        "fb_mib": _framebuffers(metrics.devices, labels),
        "gpu_instances": sorted({unit.instance for one in metrics.devices for unit in one.units} - {""}),
        "has_gpu_util": _has_gpu_util(metrics),
        "pods": sorted(_pods(metrics.devices)),
        "devices": [device_row(one, label) for one, label in zip(metrics.devices, labels, strict=True)],
        "by_gpu": {
            label.removeprefix("gpu"): _holder(one)
            for one, label in zip(metrics.devices, labels, strict=True)
        },
        "warnings": metrics.warnings[:MOST_WARNINGS],
    }
    if metrics.collection is not None:
        names = metrics.collection.names
        answer |= {
            "series": metrics.collection.told,
            "metric_names": len(names),
            "aliases": {name: ALIASES[name] for name in sorted(names) if name in ALIASES},
            "node_from_hostname": any(one.host for one in metrics.devices),
        }
        answer |= _dealt(metrics.devices, labels)
    if metrics.table is not None:
        answer |= _table(metrics.table)
    if len(metrics.devices) == 1:
        answer |= _alone(metrics.devices[0], answer)
    return answer


def _names_of(devices: tuple[Device, ...]) -> list[str]:
    """ "gpu0", or with host or UUID before it where that is not enough."""
    short = [f"gpu{one.index}" if one.index else one.name for one in devices]
    if len({one.vendor for one in devices}) > 1:
        short = [
            _WORDS.get(one.vendor, "gpu") + one.index if one.index else name
            for one, name in zip(devices, short, strict=True)
        ]
    counts = Counter(short)
    longer = [
        f"{one.host}/{name}" if counts[name] > 1 and one.host else name
        for one, name in zip(devices, short, strict=True)
    ]
    counts = Counter(longer)
    return [
        f"{one.name}/{name}" if counts[name] > 1 else name for one, name in zip(devices, longer, strict=True)
    ]


def _framebuffers(devices: tuple[Device, ...], labels: list[str]) -> dict[str, dict[str, float]]:
    found = {}
    for device, label in zip(devices, labels, strict=True):
        for unit in device.units:
            told = {"FB_USED": unit.used_mib, "FB_FREE": unit.free_mib}
            known = {name: value for name, value in told.items() if value is not None}
            if known:
                found[f"{label}/gi{unit.instance}" if unit.instance else label] = known
    return found


def _has_gpu_util(metrics: Metrics) -> bool:
    if metrics.dialect == SMI:
        return any(unit.utilisation is not None for one in metrics.devices for unit in one.units)
    return metrics.collection is not None and GPU_UTIL in map(today, metrics.collection.names)


def _pods(devices: tuple[Device, ...]) -> set[str]:
    """Names as the exporter tells them, placeholders too; never the exporter's own."""
    units = [unit for device in devices for unit in device.units]
    named = {one.pod for unit in units for one in unit.workloads}
    named |= {share.workload.pod for unit in units for share in unit.shares}
    return named | {unit.placeholder.partition("/")[2] for unit in units if unit.placeholder}


def _holder(device: Device) -> dict[str, Any]:
    busy = [unit for unit in device.units if unit.workloads] or list(device.units)
    unit = busy[0] if len(busy) == 1 else None
    workload = unit.workload if unit is not None else None
    return {
        "namespace": workload.namespace if workload else None,
        "pod": workload.pod if workload else None,
        "util": unit.utilisation if unit is not None else None,
    }


def device_row(device: Device, label: str) -> dict[str, Any]:
    return {
        "name": label,
        "host": device.host or None,
        "uuid": device.uuid or None,
        "index": device.index or None,
        "vendor": device.vendor or None,
        "model": device.model or None,
        "bus_id": device.bus_id or None,
        "power_watts": device.power_watts,
        "temperature_celsius": device.temperature_c,
        "last_xid": device.xid,
        "sampled_at": device.at,
        "no_data_since": device.silent_since,
        "units": [_unit_row(device, unit) for unit in device.units],
        "other": dict(device.other),
        "not_measured": dict(device.missing),
    }


def _unit_row(device: Device, unit: Unit) -> dict[str, Any]:
    return {
        "key": f"{device.name}/{unit.instance}" if unit.instance else device.name,
        "instance": unit.instance or None,
        "profile": unit.profile or None,
        "used_mib": unit.used_mib,
        "free_mib": unit.free_mib,
        "free_mib_most": unit.free_mib_most,
        "reserved_mib": unit.reserved_mib,
        "total_mib": unit.total_mib,
        "total_note": unit.total_note,
        "utilisation_percent": unit.utilisation,
        "utilisation_from": unit.utilisation_metric or None,
        "sm_activity_percent": unit.sm_activity,
        "allocated_mib": unit.allocated_mib,
        "limit_mib": unit.limit_mib,
        "core_allocated": unit.core_allocated,
        "core_limit": unit.core_limit,
        "workloads": [
            {"namespace": one.namespace, "pod": one.pod, "container": one.container} for one in unit.workloads
        ],
        "placeholder": unit.placeholder or None,
        "shares": [
            {
                "namespace": one.workload.namespace,
                "pod": one.workload.pod,
                "container": one.workload.container,
                "used_mib": one.used_mib,
                "limit_mib": one.limit_mib,
                "utilisation_percent": one.utilisation,
            }
            for one in unit.shares
        ],
        "not_measured": dict(unit.missing),
    }


def _dealt(devices: tuple[Device, ...], labels: list[str]) -> dict[str, Any]:
    """What a scheduler says it dealt out, beside what is used."""
    alloc, limit = {}, {}
    for device, label in zip(devices, labels, strict=True):
        key = label.removeprefix("gpu")
        for unit in device.units:
            if unit.allocated_mib is not None:
                alloc[key] = unit.allocated_mib
            if unit.core_limit is not None:
                limit[key] = unit.core_limit
    return {name: told for name, told in (("alloc_mib", alloc), ("core_limit", limit)) if told}


def _table(table: SmiTable) -> dict[str, Any]:
    """Cells as they stand, of the only row; several rows are in `devices`."""
    answer: dict[str, Any] = {"columns": table.columns, "rows": table.rows}
    if table.rows == 1:
        row = table.first
        cells = {
            "mem_total": "memory.total",
            "mem_used": "memory.used",
            "mem_free": "memory.free",
            "util": "utilization.gpu",
            "mig": "mig.mode.current",
            "name": "name",
        }
        answer |= {name: row[column] for name, column in cells.items() if column in row}
    return answer


def _alone(device: Device, answer: dict[str, Any]) -> dict[str, Any]:
    """Of a single whole device its figures stand at the top as well."""
    if len(device.units) != 1 or device.is_cut:
        return {}
    unit = device.units[0]
    found = {
        "fb_used_mib": unit.used_mib,
        "fb_free_mib": unit.free_mib,
        "used_mib": unit.used_mib,
        "free_mib": unit.free_mib,
        "reserved_mib": unit.reserved_mib,
        "total_mib": unit.total_mib,
        "util": unit.utilisation,
    }
    return {name: value for name, value in found.items() if name not in answer}
