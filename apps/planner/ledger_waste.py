"""Sums a group of devices up: schedulable, allocated, free, and what is left but stranded, with the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.planner.devices import DeviceGroup
from apps.planner.inventory import Node, Pod
from apps.planner.ledger_rows import DeviceLedger, GroupLedger, Standing, Unlocated, Waste
from apps.planner.shares import WHOLE

HOST = (("cpu", Waste.NO_CPU), ("memory", Waste.NO_HOST_MEMORY))


@dataclass(frozen=True, slots=True)
class Around:
    """What a group's node says about it. offered, used: units of its resource, None where it offers none by
    that name. is_cut_unseen: MIG instances are offered, nobody tells on which GPUs; is_single: on all of
    them, by the name of whole GPUs. offers_slots: turns are
    dealt out, so no GPU is to be had whole. overcommitted: beyond what `offered` and `used` show.
    beyond_cards: cards given out by the plugin and by claims together that are not there."""

    is_open: bool = True
    offered: int | None = None
    used: int = 0
    unlocated: tuple[Unlocated, ...] = ()
    is_cut_unseen: bool = False
    is_single: bool = False
    offers_slots: bool = False
    host: Waste | None = None
    overcommitted: int = 0
    beyond_cards: int = 0


def host_waste(node: Node, pods: Iterable[Pod]) -> Waste | None:
    """Why no further pod can start on the host, whatever its GPUs; None where nothing says so."""
    guests = list(pods)
    for name, waste in HOST:
        if name in node.allocatable:
            used = sum(pod.requests.get(name, 0) for pod in guests)
            if used >= node.allocatable[name]:
                return waste
    is_full = "pods" in node.allocatable and len(guests) >= node.allocatable["pods"]
    return Waste.NO_PODS if is_full else None


def sum_up(group: DeviceGroup, devices: Sequence[DeviceLedger], around: Around) -> GroupLedger:
    healthy = sum(row.gpu.healthy for row in devices)
    missing = _missing(group, devices, around)
    withheld = 0 if around.is_cut_unseen else missing
    hidden = _hidden(around.unlocated)
    is_dealt = group.shares_per_gpu > 1
    rows = _stranded(_sure(devices, hidden, around), around, is_dealt)
    held = sum((_held(row) for row in rows), Fraction(0)) + sum(one.milli for one in around.unlocated)
    allocated = min(Fraction(WHOLE * len(rows)), held)
    left = WHOLE * len(rows) - round(allocated)
    causes = _causes(rows, left, withheld) if around.is_open else Counter[Waste]()
    free = sum(_is_whole(row) for row in rows) - missing - hidden if around.is_open else 0
    over = max(0, around.used - around.offered) if around.offered is not None else 0
    return GroupLedger(
        vendor=group.vendor,
        resource=group.resource,
        model=group.model,
        devices=tuple(rows),
        physical=len(rows),
        schedulable=max(0, healthy - withheld) if around.is_open else 0,
        unhealthy=len(rows) - healthy,
        withheld=withheld,
        allocated=allocated,
        free=0 if around.offers_slots else max(0, free),
        left_milli=left,
        stranded_milli=sum(causes.values()),
        stranded_by=dict(causes),
        units_offered=around.offered,
        units_used=around.used,
        overcommitted=max(over + around.overcommitted, around.beyond_cards),
        sharing=group.sharing,
        shares_per_gpu=group.shares_per_gpu,
        alive=group.alive,
        unlocated=around.unlocated,
    )


def _missing(group: DeviceGroup, devices: Sequence[DeviceLedger], around: Around) -> int:
    """Devices that look whole and healthy but are not offered whole: lost, or cut where nobody tells."""
    whole = [row for row in devices if row.gpu.healthy and row.standing is not Standing.CUT]
    if around.is_cut_unseen and around.offered is None:
        return len(whole)
    if around.offered is None:
        return 0
    units = [row.gpu.units for row in whole]
    if None not in units and sum(one or 0 for one in units) <= around.offered:
        return 0
    return max(0, len(whole) - -(-around.offered // max(group.shares_per_gpu, 1)))


def _hidden(unlocated: Sequence[Unlocated]) -> int:
    """How many whole devices the pods that nobody places take at least."""
    with_devices = [one for one in unlocated if one.devices]
    milli = sum(one.milli for one in with_devices)
    return max(-(-milli // WHOLE), 1 if with_devices else 0)


def _sure(devices: Sequence[DeviceLedger], hidden: int, around: Around) -> list[DeviceLedger]:
    """A device without known taker is only free where no pod could be on it that nobody places."""
    open_rows = sum(row.standing is Standing.FREE for row in devices)
    if not (hidden or around.is_cut_unseen):
        return list(devices)
    if around.is_single and around.is_cut_unseen:
        return [
            replace(row, standing=Standing.CUT) if row.standing is Standing.FREE else row for row in devices
        ]
    whole = sum(one.devices for one in around.unlocated if one.milli >= WHOLE * one.devices)
    is_full = whole >= open_rows and not around.is_cut_unseen and not around.offers_slots
    now = Standing.HELD if is_full else Standing.UNKNOWN
    return [replace(row, standing=now) if row.standing is Standing.FREE else row for row in devices]


def _is_whole(row: DeviceLedger) -> bool:
    return row.gpu.healthy and not row.instances and not row.takers


def _held(row: DeviceLedger) -> Fraction:
    """What of it is allocated, as a part of one physical device."""
    return WHOLE * min(row.share / row.whole_milli, Fraction(1))


def _scaled(row: DeviceLedger, milli: int) -> int:
    """As a part of one physical device, also where its cores are sold more than once."""
    return WHOLE * min(milli, row.whole_milli) // row.whole_milli


def _stranded(rows: Sequence[DeviceLedger], around: Around, is_dealt: bool) -> list[DeviceLedger]:
    """is_dealt: a GPU is offered as several units, which can run out before it does."""
    if not around.is_open:
        return list(rows)
    has_units = not is_dealt or around.offered is None or around.used < around.offered
    return [_with_waste(row, _waste_of(row, around, has_units)) for row in rows]


def _waste_of(row: DeviceLedger, around: Around, has_units: bool) -> Waste | None:
    if not row.gpu.healthy:
        return Waste.UNHEALTHY
    if not row.left_milli and not row.left_memory_mib:
        return None
    if around.host is not None:
        return around.host
    if row.instances:
        return Waste.NO_PROFILE if row.more is not None and not any(row.more.values()) else None
    if not has_units:
        return Waste.NO_UNITS if row.left_milli else None
    if row.left_memory_mib == 0 and row.left_milli:
        return Waste.NO_MEMORY if _limits_cores(row) else None
    return Waste.NO_CORES if not row.left_milli and row.left_memory_mib else None


def _limits_cores(row: DeviceLedger) -> bool:
    """A card without cores in its register, or whose pods set no limit of them, is full with its memory."""
    return row.gpu.cores != 0 and any(taker.milli is not None for taker in row.takers)


def _with_waste(row: DeviceLedger, waste: Waste | None) -> DeviceLedger:
    if waste is None:
        return row
    milli, memory = row.left_milli, row.left_memory_mib or 0
    if waste is Waste.NO_PROFILE:
        open_rows = [one for one in row.instances if one.standing is not Standing.HELD]
        milli = max(0, milli - sum(one.milli for one in open_rows))
        memory = max(0, memory - sum(one.memory_mib or 0 for one in open_rows))
        if milli < len(row.instances) and not memory:
            return row  # what rounding leaves of a fully cut card is no remainder
    return replace(row, waste=waste, stranded_milli=milli, stranded_memory_mib=memory)


def _causes(rows: Sequence[DeviceLedger], left: int, withheld: int) -> Counter[Waste]:
    causes: Counter[Waste] = Counter()
    for row in rows:
        if row.waste is not None and row.stranded_milli:
            causes[row.waste] += min(_scaled(row, row.stranded_milli), WHOLE - round(_held(row)))
    if withheld:
        causes[Waste.NOT_OFFERED] += withheld * WHOLE
    excess = sum(causes.values()) - left
    for cause in sorted(causes, key=lambda one: (-causes[one], one)):
        cut = min(max(excess, 0), causes[cause])
        causes[cause] -= cut
        excess -= cut
    return +causes
