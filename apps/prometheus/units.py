"""Works out one unit (a GPU or a MIG instance) from what was told of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.prometheus.identity import Identity, Workload
from apps.prometheus.measures import MIB
from apps.prometheus.metric_names import ENGINE_ACTIVE, GPU_UTIL
from apps.prometheus.readings import NO_DATA, NO_SERIES, Share, Unit

SOME_ACTIVITY = 1.0
"""Percent of engine activity above which a GPU_UTIL of 0 says nothing."""
ROUNDING_MIB = 64.0


@dataclass(frozen=True, slots=True)
class Told:
    """value None: `why` says why it is no measurement. metric: who told it. is_bytes: whether memory of an
    untold unit was taken for bytes, by its size; None where the unit is told."""

    value: float | None
    why: str
    metric: str
    rank: int
    at: float
    is_bytes: bool | None = None


MIG_UNTOLD = f"{ENGINE_ACTIVE} is not exported, and {GPU_UTIL} says nothing in MIG mode"
UNTOLD = Told(None, NO_SERIES, "", 0, 0.0)


def build_unit(
    identity: Identity,
    told: Mapping[str, Told],
    *,
    workloads: tuple[Workload, ...] = (),
    shares: tuple[Share, ...] = (),
    at: float | None = None,
    is_cut: bool = False,
    silent_since: float | None = None,
) -> Unit:
    """is_cut: its GPU is in MIG mode, where GPU_UTIL says nothing. silent_since: nothing is known since."""
    if silent_since is not None:
        told = {name: replace(one, value=None, why=NO_DATA) for name, one in told.items()}
    told = _in_one_unit(told)
    total, note = _total(told)
    busy = _busy(told, is_cut=is_cut)
    return Unit(
        instance=identity.instance,
        profile=identity.profile,
        used_mib=_value(told, "used"),
        free_mib=_value(told, "free"),
        reserved_mib=_value(told, "reserved"),
        total_mib=total,
        total_note=note,
        utilisation=busy.value,
        utilisation_metric=busy.metric if busy.value is not None else "",
        sm_activity=_value(told, "sm"),
        allocated_mib=_value(told, "allocated"),
        limit_mib=_value(told, "limit"),
        core_allocated=_value(told, "core_allocated"),
        core_limit=_value(told, "core_limit"),
        workloads=tuple(one for one in workloads if not one.is_placeholder),
        placeholder=next((one.key for one in workloads if one.is_placeholder), ""),
        shares=shares,
        missing=_missing(told, busy),
        at=at,
    )


def _in_one_unit(told: Mapping[str, Told]) -> Mapping[str, Told]:
    """An exporter that counts the whole card in bytes counts little memory in bytes as well."""
    untold = {name: one for name, one in told.items() if one.is_bytes is not None}
    in_bytes = {one.metric.partition("_")[0] for one in untold.values() if one.is_bytes}
    small = {
        name: replace(one, value=round(one.value / MIB, 3), is_bytes=True)
        for name, one in untold.items()
        if one.value is not None and not one.is_bytes and one.metric.partition("_")[0] in in_bytes
    }
    return {**told, **small}


def _missing(told: Mapping[str, Told], busy: Told) -> dict[str, str]:
    wanted = {"used_mib": told.get("used", UNTOLD), "free_mib": told.get("free", UNTOLD), "utilisation": busy}
    return {name: one.why or NO_SERIES for name, one in wanted.items() if one.value is None}


def _value(told: Mapping[str, Told], quantity: str) -> float | None:
    return told.get(quantity, UNTOLD).value


def _total(told: Mapping[str, Told]) -> tuple[float | None, str]:
    """What is told, else used + free + reserved, which is what the card has; and what is missing in it."""
    total, used = _value(told, "total"), _value(told, "used")
    free, reserved = _value(told, "free"), _value(told, "reserved")
    if used is None or free is None:
        return total, ""
    if total is None:
        note = "" if reserved is not None else "without what the driver reserves, which is not told"
        return used + free + (reserved or 0.0), note
    parts = used + free + (reserved or 0.0)
    if abs(total - parts) > ROUNDING_MIB and reserved is not None:
        return total, f"its parts add up to {parts:g} MiB"
    return total, ""


def _busy(told: Mapping[str, Told], *, is_cut: bool) -> Told:
    util, engine, sm = (told.get(name, UNTOLD) for name in ("util", "engine", "sm"))
    activity = engine if engine.value is not None else sm
    if is_cut:
        if activity.value is not None:
            return activity
        told_why = engine.why if engine.metric else util.why if util.value is None and util.metric else ""
        return Told(None, told_why or MIG_UNTOLD, "", 0, 0.0)
    says_nothing = util.value == 0 and activity.value is not None and activity.value >= SOME_ACTIVITY
    if util.value is None or says_nothing:
        return activity if activity.value is not None else (util if util.metric else engine)
    return util
