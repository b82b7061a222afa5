"""Where a node's GPUs sit, as Koordinator's Device CRs and DRA's ResourceSlices tell it.

Both tell PCIe and NUMA places, not the fabric between the GPUs. So a pair under one switch is at least "PIX",
one of the same NUMA node at least "NODE"; any other pair is unknown, for a direct link may join it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.kube.topology.facts import child, clean, entries, node_number, whole_or_none
from apps.kube.topology.reading import MOST_GPUS, Cells, Reading
from apps.planner.resources import parse_quantity

ONLY_PLACES = "{source} tells where the GPUs sit, not how they are linked: other links than these are unknown"
NUMA_NAMES = ("resource.kubernetes.io/numaNode", "numaNode", "numa", "numaNodeID")
ROOT_NAMES = ("resource.kubernetes.io/pcieRoot", "pcieRoot", "pciRoot")
BUS_NAMES = ("resource.kubernetes.io/pciBusID", "pciBusID", "pciBusId", "pciAddress")
INDEX_NAMES = ("index", "minor")
GPU_DEVICE = re.compile(r"(?:gpu|npu|card|accel)-?(\d{1,4})")
P2P_CODE = re.compile(r"[A-Za-z][\w-]{0,19}")
LONGEST_MINORS = 4096
LONGEST_AMOUNT = 40


@dataclass(frozen=True, slots=True)
class Seat:
    """index: as the driver numbers it. switch: opaque name of what the PCIe paths of its GPUs share."""

    index: int
    uuid: str = ""
    numa: int | None = None
    switch: str = ""
    root: str = ""
    bus_id: str = ""
    healthy: bool = True
    peers: tuple[tuple[int, str], ...] = ()
    memory_mib: int | None = None


def read_device_cr(device: Mapping[str, Any]) -> tuple[Seat, ...]:
    """The GPUs (or accelerators) of a Koordinator Device object, by minor. Other types are left out."""
    seats = []
    for entry in entries(child(device, "spec"), "devices")[: 4 * MOST_GPUS]:
        if clean(entry.get("type"), 20) not in ("gpu", "xpu", ""):
            continue
        place, index = child(entry, "topology"), whole_or_none(entry.get("minor"))
        if index is None or not 0 <= index < 10_000:
            continue
        seats.append(
            Seat(
                index=index,
                uuid=clean(entry.get("id"), 100),
                numa=node_number(place.get("nodeID")),
                switch=clean(place.get("pcieID") or place.get("pcieId"), 100),
                bus_id=clean(place.get("busID"), 40),
                healthy=entry.get("health") is not False,
                peers=tuple(_peers(place)),
                memory_mib=_memory_mib(entry),
            )
        )
    return _once(seats)


def _memory_mib(entry: Mapping[str, Any]) -> int | None:
    told = child(entry, "resources").get("koordinator.sh/gpu-memory")
    if not isinstance(told, str | int) or (isinstance(told, str) and len(told) > LONGEST_AMOUNT):
        return None
    try:
        found = parse_quantity(told, "memory") >> 20
    except (ValueError, ArithmeticError):
        return None
    return found if 0 < found < 2**31 else None


def _peers(place: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    for link in entries(place, "p2pLinks"):
        code, minors = clean(link.get("type"), 20), clean(link.get("peerMinor"), LONGEST_MINORS)
        if P2P_CODE.fullmatch(code):
            yield from (
                (int(one), code) for one in minors.split(",") if one.strip().isdecimal() and len(one) < 6
            )


def read_slices(slices: Iterable[Mapping[str, Any]]) -> tuple[Seat, ...]:
    """The whole GPUs in the newest complete generation of each pool of one node's ResourceSlices."""
    seats = []
    for one in _newest(list(slices)):
        for device in entries(child(one, "spec"), "devices"):
            basic = child(device, "basic") or device
            attributes = child(basic, "attributes")
            seat = _slice_seat(clean(device.get("name"), 100), attributes)
            if seat is not None:
                seats.append(seat)
    return _once(seats)


def _newest(slices: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    pools: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for one in slices:
        spec = child(one, "spec")
        pool = child(spec, "pool")
        key = (clean(spec.get("driver"), 100), clean(pool.get("name"), 253))
        pools.setdefault(key, {}).setdefault(whole_or_none(pool.get("generation")) or 0, []).append(one)
    kept: list[Mapping[str, Any]] = []
    for generations in pools.values():
        newest = generations[max(generations)]
        wanted = whole_or_none(child(newest[0], "spec", "pool").get("resourceSliceCount")) or len(newest)
        if len(newest) >= wanted:
            kept += newest
    return kept


def _slice_seat(name: str, attributes: Mapping[str, Any]) -> Seat | None:
    """None for partitions of a GPU and for devices that are none."""
    kind = _text(attributes, ("type",))
    found = GPU_DEVICE.fullmatch(name)
    if (kind and kind != "gpu") or (found is None and kind != "gpu") or "parentUUID" in attributes:
        return None
    index = whole_or_none(_value(attributes, INDEX_NAMES))
    if index is None and found is not None:
        index = int(found.group(1))
    if index is None or not 0 <= index < 10_000:
        return None
    return Seat(
        index=index,
        uuid=_text(attributes, ("uuid",)),
        numa=node_number(_value(attributes, NUMA_NAMES)),
        root=_text(attributes, ROOT_NAMES),
        bus_id=_text(attributes, BUS_NAMES),
    )


def _value(attributes: Mapping[str, Any], names: Sequence[str]) -> Any:
    """A DRA attribute is {"string": …}, {"int": …} and so on; its name may carry the driver's domain."""
    for name in names:
        for key, told in attributes.items():
            if (key == name or str(key).endswith(f"/{name}")) and isinstance(told, dict):
                value = next((told[kind] for kind in ("int", "string", "version") if kind in told), None)
                several = told.get("strings")
                return several[0] if value is None and isinstance(several, list) and several else value
    return None


def _text(attributes: Mapping[str, Any], names: Sequence[str]) -> str:
    return clean(_value(attributes, names), 100)


def _once(seats: Sequence[Seat]) -> tuple[Seat, ...]:
    """By index; of two with the same index the first."""
    found = {seat.index: seat for seat in reversed(seats)}
    return tuple(found[index] for index in sorted(found))[:MOST_GPUS]


def read_seats(seats: Sequence[Seat], source: str) -> Reading | None:
    """source: "koordinator" or "dra"."""
    if not seats:
        return None
    links: Cells = tuple(tuple("X" if a is b else _link(a, b) for b in seats) for a in seats)
    between = [code for row in links for code in row if code != "X"]
    has_fabric = any(seat.peers for seat in seats)
    whole = bool(between) and all(between) and has_fabric
    return Reading(
        gpus=len(seats),
        names=tuple(f"GPU{seat.index}" for seat in seats),
        links=links,
        numa=tuple(seat.numa for seat in seats) if any(seat.numa is not None for seat in seats) else None,
        uuids=tuple(seat.uuid for seat in seats),
        bus_ids=tuple(seat.bus_id for seat in seats),
        pcie_switches=tuple(seat.switch or seat.root or None for seat in seats),
        source=source,
        complete=whole or len(seats) == 1,
        warnings=() if whole or len(seats) == 1 else (ONLY_PLACES.format(source=source),),
    )


def _link(a: Seat, b: Seat) -> str:
    told = dict(a.peers).get(b.index) or dict(b.peers).get(a.index)
    if told:
        return told
    if a.switch and a.switch == b.switch:
        return "PIX"
    if a.root and a.root == b.root:
        return "PHB"
    return "NODE" if a.numa is not None and a.numa == b.numa else ""
