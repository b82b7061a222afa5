"""The node page's table of devices: one row for each physical device, whoever made it.

Who holds it and by whom that is known, memory allocated beside memory used (two different numbers), what is
left, and what does not add up. What no source tells is said as "unknown on this node", never left empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from apps.clusters.models import Cluster
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.occupancy import name_share
from apps.dashboard.reading.times import duration, seconds_since
from apps.dashboard.reading.words import amount, plural
from apps.planner.ledger_rows import (
    SOURCE_WORDS,
    UNKNOWN_HERE,
    DeviceLedger,
    GroupLedger,
    InstanceLedger,
    Standing,
    Taker,
    Unlocated,
)
from apps.planner.shares import IN_TIME
from apps.telemetry import queries as telemetry
from apps.telemetry.queries import DeviceReading

FEWEST_BYTES = 10**7
NOT_MEASURED = "not measured"
NOT_DIVIDED = "not divided"
UNDIVIDED = IN_TIME - {"mps"}
"""Where every pod on a GPU sees all of its memory."""
CHIPS = {
    Standing.FREE: ("free", "ok", "ring"),
    Standing.PART: ("shared", "", ""),
    Standing.HELD: ("held", "", ""),
    Standing.CUT: ("cut by MIG", "", ""),
    Standing.UNHEALTHY: ("unhealthy", "bad", "tri"),
    Standing.UNKNOWN: ("holder unknown", "warn", "tri"),
}


@dataclass(frozen=True, slots=True)
class HolderLine:
    """what: its share, or its MIG instance. known: by whom it is known, and since when."""

    name: str
    mark: Mark | None
    what: str
    known: str


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """note: what takes the holders' place where there are none to name. memory: given to pods. used: what
    they really use, as measured."""

    name: str
    uuid: str
    model: str
    chip: tuple[str, str, str]
    holders: tuple[HolderLine, ...]
    note: str
    memory: str
    used: str
    left: str
    troubles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """One kind of device. title: "" for the node's main ones."""

    title: str
    summary: str
    lines: tuple[DeviceLine, ...]
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DevicePanel:
    """unlocated: who holds devices that nobody places, with what."""

    tables: tuple[DeviceTable, ...]
    unlocated: tuple[tuple[str, str], ...]
    strays: tuple[str, ...]
    measured_at: datetime | None


def read_devices(cluster: Cluster, view: NodeView, marks: Mapping[str, Mark]) -> DevicePanel:
    readings = telemetry.device_readings(cluster, view.node)
    ledger = view.ledger
    tables = [
        DeviceTable(
            "" if group is ledger.main else " · ".join(filter(None, (group.resource, group.model))),
            tell_counts(group),
            tuple(_line(group, row, marks, readings.get(row.key)) for row in group.devices),
            _troubles_of(group),
        )
        for group in (ledger.main, *ledger.others)
        if group.devices
    ]
    return DevicePanel(
        tables=tuple(tables),
        unlocated=tuple(
            (one.pod, f"{_held_words(one, group)}, {UNKNOWN_HERE}")
            for group in (ledger.main, *ledger.others)
            for one in group.unlocated
        ),
        strays=tuple(
            f"{SOURCE_WORDS[one.source]} gives {one.pod} a device that this node does not have"
            for one in ledger.strays
        ),
        measured_at=max((one.taken_at for one in readings.values()), default=None),
    )


def tell_counts(group: GroupLedger) -> str:
    """ "4 physical, 3 schedulable, 1.5 allocated, 0.5 stranded; 40 units offered, 12 in use"."""
    words = [
        f"{group.physical} physical",
        f"{group.schedulable} schedulable",
        f"{amount(group.allocated_milli)} allocated",
    ]
    if group.stranded_milli:
        because = ", ".join(str(cause) for cause in sorted(group.stranded_by))
        words.append(f"{amount(group.stranded_milli)} stranded ({because})")
    text = ", ".join(words)
    if group.shares_per_gpu > 1 and group.units_offered is not None:
        text += f"; {plural(group.units_offered, unit_word(group))} offered, {group.units_used} in use"
    for name, told in tell_parts(group):
        text += f"; {told} {name} in use"
    return text


def tell_parts(group: GroupLedger) -> list[tuple[str, str]]:
    """What shares are counted in: ("aliyun.com/gpu-mem", "15 of 30"); not in bytes, which devices tell."""
    return [(name, f"{used} of {all_}") for name, (all_, used) in group.parts.items() if all_ < FEWEST_BYTES]


def unit_word(group: GroupLedger) -> str:
    """Turns in time are slots; shares of cores and memory are units of the resource."""
    return "slot" if group.sharing.lower() in IN_TIME or not group.sharing else "unit"


def tell_node_counts(view: NodeView) -> list[tuple[str, str]]:
    """The numbers that are easily taken for one another, each under its name."""
    main = view.ledger.main
    rows = [
        ("Physical", str(main.physical)),
        ("Schedulable", str(main.schedulable) + (f" ({view.ledger.closed})" if view.ledger.closed else "")),
        ("Allocated", amount(main.allocated_milli)),
        ("Free, to be had whole", str(main.free)),
        ("Stranded", amount(main.stranded_milli)),
    ]
    if main.shares_per_gpu > 1 and main.units_offered is not None:
        rows.append((f"{unit_word(main).capitalize()}s in use", f"{main.units_used} of {main.units_offered}"))
    rows += [(f"{name} in use", told) for name, told in tell_parts(main)]
    if main.overcommitted:
        rows.append(("Overcommitted", f"by {main.overcommitted}"))
    return rows


def _troubles_of(group: GroupLedger) -> tuple[str, ...]:
    found = []
    if group.overcommitted:
        found.append(
            f"Overcommitted: pods ask for {group.overcommitted} of {group.resource} more than is offered."
        )
    if group.alive is False:
        found.append("Its device plugin is silent: shown, and nothing is planned on it.")
    if group.withheld:
        found.append(
            f"{plural(group.withheld, 'device')} of {group.physical} not offered by the kubelet; "
            "which, nobody tells."
        )
    return tuple(found)


def _line(
    group: GroupLedger,
    row: DeviceLedger,
    marks: Mapping[str, Mark],
    reading: DeviceReading | None,
) -> DeviceLine:
    holders = (
        *(_holder(taker, name_share(row, taker), marks) for taker in _shown(row)),
        *(line for one in row.instances for line in _of_instance(one, marks)),
    )
    model = row.gpu.model or group.model
    return DeviceLine(
        name=str(row.index),
        uuid=row.gpu.uuid,
        model="" if model == group.model else model,
        chip=CHIPS[row.standing],
        holders=holders,
        note="" if holders else _note(row),
        memory=_memory(row, is_divided=group.sharing.lower() not in UNDIVIDED),
        used=_used(reading),
        left=_left(row, unit_word(group)),
        troubles=tuple(map(str, row.flags)),
    )


def _shown(row: DeviceLedger) -> tuple[Taker, ...]:
    """Turns of one pod on one device are one line each; whole holders of several containers only one."""
    seen: set[tuple[str, str]] = set()
    kept = []
    for taker in row.takers:
        key = (taker.pod_uid, taker.container)
        if (taker.milli or 0) >= row.whole_milli and key in seen:
            continue
        seen.add(key)
        kept.append(taker)
    return tuple(kept)


def _holder(taker: Taker, what: str, marks: Mapping[str, Mark]) -> HolderLine:
    name = f"{taker.pod} ({taker.container})" if taker.container else taker.pod
    what = "" if (taker.milli or 0) >= 1000 and taker.memory_mib is None and not taker.instance else what
    return HolderLine(name, marks.get(taker.pod_uid), what, tell_known(taker))


def _of_instance(one: InstanceLedger, marks: Mapping[str, Mark]) -> tuple[HolderLine, ...]:
    what = one.profile if one.start is None else f"{one.profile} at {one.start}"
    if one.memory_mib:
        what += f", {one.memory_mib:,} MiB"
    if one.takers:
        return tuple(_holder(taker, what, marks) for taker in one.takers)
    if one.standing in (Standing.FREE, Standing.UNHEALTHY):
        return (HolderLine(str(one.standing), None, what, ""),)
    word = "in use, by whom is" if one.standing is Standing.HELD else "holder"
    return (HolderLine(f"{word} {UNKNOWN_HERE}", None, what, ""),)


def tell_known(taker: Taker) -> str:
    """ "the node agent, 3 min ago"; what stands in the pod itself has no age."""
    word = SOURCE_WORDS[taker.source]
    seconds = seconds_since(taker.observed_at)
    return word if seconds is None else f"{word}, {duration(seconds)} ago"


def _note(row: DeviceLedger) -> str:
    if row.standing is Standing.FREE:
        return "nobody"
    if row.standing is Standing.UNHEALTHY:
        return "nobody told"
    return UNKNOWN_HERE


def _memory(row: DeviceLedger, *, is_divided: bool) -> str:
    whole = row.gpu.memory_mib
    if whole is not None and not is_divided:
        return f"{NOT_DIVIDED}, {whole:,} MiB for all"
    if whole is None:
        return f"{row.taken_memory_mib:,} MiB of an unknown amount" if row.taken_memory_mib else "not known"
    if row.standing is Standing.UNKNOWN or (row.standing is Standing.HELD and not row.takers):
        return f"{UNKNOWN_HERE}, of {whole:,} MiB"
    if row.taken_memory_mib is None:
        return f"{NOT_DIVIDED}, {whole:,} MiB for all"
    return f"{row.taken_memory_mib:,} of {whole:,} MiB"


def _used(reading: DeviceReading | None) -> str:
    if reading is None:
        return NOT_MEASURED
    parts = [unit.used_mib for unit in reading.device.units]
    if not parts or any(part is None for part in parts):
        return NOT_MEASURED
    total = sum(part or 0 for part in parts)
    return f"{total:,.0f} MiB" + (
        f", {duration(seconds_since(reading.taken_at) or 0)} ago" if reading.is_stale else ""
    )


def _left(row: DeviceLedger, word: str) -> str:
    if row.waste is not None:
        return f"stranded: {row.waste}"
    if row.units is not None and row.units_used is not None and row.units > 1:
        if row.standing is Standing.UNKNOWN:
            return f"{plural(row.units, word)}, not known how many are left"
        return f"{max(0, row.units - row.units_used)} of {plural(row.units, word)} left"
    return ""


def _held_words(one: Unlocated, group: GroupLedger) -> str:
    milli, units = one.milli, one.units
    if one.profiles:
        return ", ".join(f"{count} × {name}" for name, count in sorted(one.profiles.items()))
    if units and (milli != 1000 * units or group.shares_per_gpu > 1):
        return plural(units, unit_word(group))
    return plural(round(milli / 1000), "GPU") if milli % 1000 == 0 and milli else f"{amount(milli)} GPU"
