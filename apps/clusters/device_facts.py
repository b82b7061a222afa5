"""What the ledger says of devices as plain values, for the API: amounts, holders with source and age.

`None` means "not known", never zero. No rules and no database here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apps.planner.ledger_rows import (
    UNKNOWN_HERE,
    DeviceLedger,
    GroupLedger,
    InstanceLedger,
    NodeLedger,
    Standing,
    Taker,
)

STATES = ("free", "held", "unhealthy", "unknown")
"""held: in whole or in part. unknown: pods of the node hold some of its GPUs, and nobody tells which."""


def as_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def count_facts(ledger: NodeLedger) -> dict[str, Any]:
    """Physical, schedulable, allocated, free and stranded are five numbers; units are a sixth."""
    main = ledger.main
    return {
        "gpus_physical": main.physical,
        "gpus_schedulable": main.schedulable,
        "gpus_allocated": main.allocated_milli / 1000,
        "gpus_free": main.free,
        "gpus_stranded": main.stranded_milli / 1000,
        "stranded_because": [str(cause) for cause in sorted(main.stranded_by)],
        "gpus_unhealthy": main.unhealthy + main.withheld,
        "units_offered": main.units_offered,
        "units_allocated": main.units_used,
        "units_overcommitted": main.overcommitted,
        "shares_in": [
            {"resource": name, "offered": offered, "allocated": asked}
            for name, (offered, asked) in main.parts.items()
        ],
        "pods_unlocated": len(main.unlocated),
        "closed_because": ledger.closed,
    }


def group_facts(group: GroupLedger) -> dict[str, Any]:
    return {
        "vendor": group.vendor,
        "resource": group.resource,
        "model": group.model,
        "is_alive": group.alive,
        "physical": group.physical,
        "schedulable": group.schedulable,
        "allocated": group.allocated_milli / 1000,
        "free": group.free,
        "units_offered": group.units_offered,
        "units_allocated": group.units_used,
        "units_overcommitted": group.overcommitted,
    }


def device_facts(ledger: NodeLedger, group: GroupLedger, row: DeviceLedger) -> dict[str, Any]:
    """One device with its MIG instances and its holders; holders None where no source tells them."""
    is_known = has_known_holders(ledger, row)
    return {
        "index": row.gpu.index,
        "uuid": row.gpu.uuid,
        "vendor": group.vendor,
        "resource": group.resource,
        "model": row.gpu.model or group.model,
        "memory_mib": row.gpu.memory_mib,
        "memory_allocated_mib": row.taken_memory_mib,
        "memory_left_mib": row.left_memory_mib,
        "milli_allocated": row.allocated_milli,
        "milli_left": max(0, row.whole_milli - row.allocated_milli),
        "units": row.units,
        "units_allocated": row.units_used,
        "numa": row.gpu.numa,
        "pcie_switch": row.gpu.pcie_switch,
        "is_healthy": row.gpu.healthy,
        "state": state_of(row),
        "stranded_because": str(row.waste) if row.waste else "",
        "flags": [str(flag) for flag in row.flags],
        "mig_instances": [_instance(one) for one in row.instances],
        "holders": [_holder(taker, row) for taker in row.all_takers] if is_known else None,
        "holders_note": "" if is_known else UNKNOWN_HERE,
    }


def has_known_holders(ledger: NodeLedger, row: DeviceLedger) -> bool:
    """An empty list of holders is a fact only where a source could have named them."""
    if row.all_takers:
        return True
    is_unsure = row.standing in (Standing.UNKNOWN, Standing.HELD) or any(
        one.standing in (Standing.UNKNOWN, Standing.HELD) for one in row.instances
    )
    return ledger.is_told and not is_unsure


def state_of(row: DeviceLedger) -> str:
    if row.standing is Standing.UNHEALTHY:
        return "unhealthy"
    parts = {row.standing, *(one.standing for one in row.instances)}
    if row.all_takers or parts & {Standing.HELD, Standing.PART}:
        return "held"
    return "unknown" if Standing.UNKNOWN in parts else "free"


def _instance(one: InstanceLedger) -> dict[str, Any]:
    return {
        "profile": one.profile,
        "start_slice": one.start,
        "uuid": one.uuid,
        "memory_mib": one.memory_mib,
        "use": str(one.standing),
    }


def _holder(taker: Taker, row: DeviceLedger) -> dict[str, Any]:
    return {
        "pod": taker.pod,
        "pod_uid": taker.pod_uid,
        "container": taker.container,
        "device": taker.instance or row.key,
        "milli": taker.milli,
        "memory_mib": taker.memory_mib,
        "source": str(taker.source),
        "observed_at": as_time(taker.observed_at),
    }
