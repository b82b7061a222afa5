"""Puts the series of one text or answer together into devices.

Of several samples of the same quantity the last one counts; power and temperature, which every MIG instance
repeats, are the greatest per device. Nothing is ever summed over series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from apps.prometheus.identity import Attribution, Identity, Workload, identity_of
from apps.prometheus.measures import LARGEST_MIB, blank_reason, measured
from apps.prometheus.metric_names import Meaning, is_accelerators, meaning_of, today, vendor_of
from apps.prometheus.readings import Device, Share
from apps.prometheus.series import Collection, Series
from apps.prometheus.units import Told, build_unit

STALE_SECONDS = 60.0
MOST_OTHER = 40
_OF_THE_DEVICE = ("power", "temperature", "xid")
_Labels = tuple[str, bool, frozenset[tuple[str, str]]]
_SHARES = ("share_used", "share_limit", "share_util")


@dataclass(slots=True)
class _Part:
    """All that is told of one unit. seen: (scrape, time) of each series of it."""

    identity: Identity
    told: dict[str, Told] = field(default_factory=dict)
    workloads: dict[Workload, tuple[int, float]] = field(default_factory=dict)
    shares: dict[Workload, Share] = field(default_factory=dict)
    scrape: int = 0
    at: float = 0.0
    measures: bool = False


@dataclass(slots=True)
class _Whole:
    identity: Identity
    parts: dict[str, _Part] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    other: dict[str, float | None] = field(default_factory=dict)


def devices_of(collection: Collection) -> tuple[Device, ...]:
    """By host, then by index, then by name."""
    seen = _Seen(collection.series)
    wholes: dict[tuple[str, str], _Whole] = {}
    for series, identity, workload in seen.of_devices():
        key = (identity.host or ("" if identity.uuid else identity.scraped), identity.name)
        whole = wholes.setdefault(key, _Whole(identity))
        if identity is not whole.identity:
            whole.identity = _richer(whole.identity, identity)
        _add(whole, identity, series, workload, collection.help.get(series.name, ""))
    newest = max((part.at for whole in wholes.values() for part in whole.parts.values()), default=0.0)
    devices = [_device(whole, newest) for whole in wholes.values()]
    return tuple(sorted(devices, key=lambda one: (one.host, _as_order(one.index), one.name)))


class _Seen:
    """Device and workload of every series. Those with the same labels, of which each metric has one, are
    worked out once."""

    def __init__(self, all_series: Iterable[Series]) -> None:
        self._all = [(series, _labels_of(series)) for series in all_series]
        self._attribution = Attribution(series for series, _ in self._all)
        self._identities: dict[_Labels, Identity | None] = {}
        for series, key in self._all:
            if key not in self._identities:
                self._identities[key] = identity_of(series)
        hosts = _Hosts(one for one in self._identities.values() if one is not None)
        for key, identity in self._identities.items():
            if identity is not None:
                self._identities[key] = hosts.complete(identity)

    def of_devices(self) -> Iterator[tuple[Series, Identity, Workload | None]]:
        workloads: dict[_Labels, Workload | None] = {}
        for series, key in self._all:
            identity = self._identities[key]
            if identity is None:
                continue
            if key not in workloads:
                workloads[key] = self._attribution.workload_of(series.labels)
            yield series, identity, workloads[key]


def _labels_of(series: Series) -> _Labels:
    return vendor_of(series.name), is_accelerators(series.name), frozenset(series.labels.items())


class _Hosts:
    """Two exporters may speak of one card, and only one of them name its host: its UUID joins them. A card
    that only its place is known of is the one with a UUID at that place, if there is just one."""

    def __init__(self, identities: Iterable[Identity]) -> None:
        self._of_uuid: dict[str, set[str]] = {}
        self._at_place: dict[tuple[str, str, str], set[str]] = {}
        for identity in identities:
            if identity.uuid:
                self._of_uuid.setdefault(identity.uuid, set()).add(identity.host)
                place = (identity.host or identity.scraped, identity.index, identity.vendor)
                self._at_place.setdefault(place, set()).add(identity.uuid)

    def complete(self, identity: Identity) -> Identity:
        if not identity.uuid:
            place = (identity.host or identity.scraped, identity.index, identity.vendor)
            uuids = self._at_place.get(place, set())
            identity = replace(identity, uuid=next(iter(uuids))) if len(uuids) == 1 else identity
        if identity.uuid and not identity.host:
            hosts = self._of_uuid.get(identity.uuid, set()) - {""}
            identity = replace(identity, host=next(iter(hosts))) if len(hosts) == 1 else identity
        return identity


def _richer(old: Identity, new: Identity) -> Identity:
    return replace(
        old,
        index=old.index or new.index,
        model=old.model or new.model,
        bus_id=old.bus_id or new.bus_id,
        vendor=old.vendor or new.vendor,
    )


def _add(whole: _Whole, identity: Identity, series: Series, workload: Workload | None, words: str) -> None:
    part = whole.parts.setdefault(identity.instance, _Part(identity))
    if not part.identity.profile and identity.profile:
        part.identity = identity
    part.scrape, part.at = max(part.scrape, series.scrape), max(part.at, series.at or 0.0)
    meaning = meaning_of(series.name, words)
    if meaning is not None and meaning.quantity in _SHARES:
        _add_share(part, workload, series.value, meaning)
        return
    if workload is not None:
        part.workloads[workload] = (series.scrape, series.at or 0.0)
    if meaning is None:
        if len(whole.other) < MOST_OTHER:
            blank = blank_reason(series.value, is_long=True)
            whole.other[series.name] = None if blank else series.value
        return
    value, why = measured(series.value, meaning)
    is_bytes = series.value >= LARGEST_MIB if meaning.unit == "memory" and value is not None else None
    told = Told(value, why, today(series.name), meaning.rank, series.at or 0.0, is_bytes)
    if meaning.quantity in _OF_THE_DEVICE:
        _keep(whole.told, meaning.quantity, told, greatest=meaning.quantity != "xid")
    else:
        part.measures = True
        _keep(part.told, meaning.quantity, told, greatest=False)


def _keep(told: dict[str, Told], quantity: str, new: Told, *, greatest: bool) -> None:
    """The better rank, then a number before a blank, then the greatest or the last."""
    old = told.get(quantity)
    if old is None or new.rank < old.rank:
        if old is None or new.value is not None or old.value is None:
            told[quantity] = new
        return
    if new.rank > old.rank:
        if old.value is None and new.value is not None:
            told[quantity] = new
        return
    if greatest and old.value is not None:
        if new.value is not None and new.value >= old.value:
            told[quantity] = new
    elif new.at >= old.at:
        told[quantity] = new


def _add_share(part: _Part, workload: Workload | None, value: float, meaning: Meaning) -> None:
    if workload is None:
        return
    number, _ = measured(value, meaning)
    if number is None:
        return
    old = part.shares.get(workload) or Share(workload)
    if meaning.quantity == "share_used":
        part.shares[workload] = replace(old, used_mib=number)
    elif meaning.quantity == "share_limit":
        part.shares[workload] = replace(old, limit_mib=number)
    else:
        part.shares[workload] = replace(old, utilisation=number)


def _device(whole: _Whole, newest: float) -> Device:
    parts = _present(whole)
    at = max((part.at for part in parts), default=0.0)
    silent = at if at and at < newest - STALE_SECONDS else None
    cut = any(part.identity.instance for part in parts)
    units = [
        build_unit(
            part.identity,
            part.told,
            workloads=_holders(part),
            shares=tuple(part.shares.values()),
            at=part.at or None,
            is_cut=cut and whole.identity.vendor == "nvidia",
            silent_since=silent,
        )
        for part in sorted(parts, key=lambda part: _as_order(part.identity.instance))
        if part.measures or part.identity.instance or not cut or part.shares
    ]
    identity = whole.identity
    known = {name: whole.told.get(name, Told(None, "", "", 0, 0.0)) for name in _OF_THE_DEVICE}
    xid = known["xid"].value
    return Device(
        host=identity.host,
        uuid=identity.uuid,
        index=identity.index,
        vendor=identity.vendor,
        model=identity.model,
        bus_id=identity.bus_id,
        units=tuple(units),
        power_watts=None if silent else known["power"].value,
        temperature_c=None if silent else known["temperature"].value,
        xid=None if xid is None else int(xid),
        other=whole.other,
        missing={name: told.why for name, told in known.items() if told.value is None and told.why},
        at=at or None,
        silent_since=silent,
    )


def _present(whole: _Whole) -> list[_Part]:
    """Without the parts that the newest scrape of the device shows no more: its layout has changed since."""
    scrape = max(part.scrape for part in whole.parts.values())
    newest = max(part.at for part in whole.parts.values())
    return [
        part
        for part in whole.parts.values()
        if part.scrape == scrape and (not part.at or part.at >= newest - STALE_SECONDS)
    ]


def _holders(part: _Part) -> tuple[Workload, ...]:
    """Only of the newest scrape: the pod before this one left its name on older samples."""
    newest = max((at for _, at in part.workloads.values()), default=0.0)
    return tuple(
        workload
        for workload, (scrape, at) in sorted(part.workloads.items(), key=lambda pair: pair[0].key)
        if scrape == part.scrape and at >= newest - STALE_SECONDS
    )


def _as_order(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdecimal() and len(text) < 10 else (10**10, text)
