"""The physical cards behind the devices of a pool: which devices are one piece of silicon, and what it is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from apps.kube.translate.slices import CUT, Pool, SlicedDevice
from apps.planner.inventory import Gpu, MigInstance

MEBIBYTE = 1 << 20
LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)")
BUS_NAMES = ("pcieBusID", "pciBusID", "pciBusId", "pciAddress")
DOMAINS = {
    "gpu.nvidia.com": "nvidia.com/gpu",
    "gpu.amd.com": "amd.com/gpu",
    "gpu.intel.com": "gpu.intel.com/i915",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One physical device. whole: the device that is all of it, None where only pieces are offered.

    parts: its pieces, existing ones and possible ones alike. memory_bytes: of the whole, None if untold.
    """

    key: str
    whole: SlicedDevice | None
    parts: tuple[SlicedDevice, ...]
    index: int
    memory_bytes: int | None

    @property
    def uuid(self) -> str:
        if self.whole is not None:
            return self.whole.text("uuid")
        return next(filter(None, (part.text("parentUUID") for part in self.parts)), "")

    @property
    def taint(self) -> str:
        """A piece of a failed card has failed; a card of which a piece has failed has not."""
        return self.whole.taint if self.whole is not None else ""

    @property
    def is_healthy(self) -> bool:
        if self.whole is not None:
            return self.whole.is_healthy
        return any(part.is_healthy for part in self.parts)

    def is_usable(self, device: SlicedDevice) -> bool:
        return device.is_healthy and (self.whole is None or self.whole.is_healthy)


def cards_of(pool: Pool) -> tuple[Card, ...]:
    """In the order of their numbers."""
    by_uuid = {one.text("uuid"): one for one in pool.devices if one.text("uuid") and not one.is_part}
    by_bus: dict[str, str] = {}
    groups: dict[str, list[SlicedDevice]] = {}
    for device in pool.devices:
        groups.setdefault(_key(device, by_uuid, by_bus), []).append(device)
    found = [_card(pool, key, devices, place) for place, (key, devices) in enumerate(groups.items())]
    found.sort(key=lambda card: (card.index, card.key))
    if len({card.index for card in found}) != len(found):
        found = [replace(card, index=place) for place, card in enumerate(found)]
    return tuple(found)


def _key(device: SlicedDevice, by_uuid: dict[str, SlicedDevice], by_bus: dict[str, str]) -> str:
    """Devices that draw on one counter set are one card; so are a parent and its pieces."""
    if device.consumes:
        return device.consumes[0][0]
    if device.is_part:
        parent = by_uuid.get(device.text("parentUUID"))
        if parent is not None:
            return _key(parent, by_uuid, by_bus)
        cut = CUT.match(device.name)
        # AMD's pieces tell the address of the card that they are of.
        return device.text("parentUUID") or (cut["card"] if cut else device.text("pciAddr") or device.name)
    bus = device.text(*BUS_NAMES)
    return by_bus.setdefault(bus, device.name) if bus else device.name


def _card(pool: Pool, key: str, devices: list[SlicedDevice], place: int) -> Card:
    wholes = [device for device in devices if not device.is_part]
    wholes.sort(
        key=lambda device: (device.attributes.get("type") == "vfio", -device.capacity.get("memory", 0))
    )
    whole = wholes[0] if wholes else None
    parts = tuple(device for device in devices if device.is_part)
    counters = pool.counters.get(key, {})
    memory = whole.capacity.get("memory") if whole else None
    return Card(
        key=key,
        whole=whole,
        parts=parts,
        index=_index(whole, parts, key, place),
        memory_bytes=memory if memory is not None else counters.get("memory"),
    )


def _index(whole: SlicedDevice | None, parts: tuple[SlicedDevice, ...], key: str, place: int) -> int:
    told = whole.number("index", "minor") if whole else None
    for part in parts if told is None else ():
        told = part.number("parentIndex", "parentMinor")
        if told is not None:
            break
    if told is not None:
        return told
    cut = CUT.match(parts[0].name) if parts and whole is None else None
    name = whole.name if whole else cut["card"] if cut else key
    number = LAST_NUMBER.search(name)
    return int(number.group(1)[:6]) if number else place


def gpus_of(cards: Iterable[Card], taken: Collection[str] = ()) -> tuple[Gpu, ...]:
    """taken: names of devices that a claim holds: a piece that is held exists, whatever its UUID says."""
    return tuple(_gpu(card, taken) for card in cards)


def _gpu(card: Card, taken: Collection[str]) -> Gpu:
    facts = card.whole or card.parts[0]
    return Gpu(
        index=card.index,
        uuid=card.uuid,
        memory_mib=card.memory_bytes // MEBIBYTE if card.memory_bytes else None,
        numa=facts.number("numaNode", "numa", "numaNodeID"),
        pcie_switch=facts.text("pcieRoot", "pciRoot") or None,
        bus_id=facts.text(*BUS_NAMES, "pciAddr"),
        healthy=card.is_healthy,
        instances=tuple(
            MigInstance(part.profile, part.start_slice, part.text("uuid"))
            for part in card.parts
            if part.text("uuid") or part.name in taken
        ),
        model=facts.text("productName", "model")[:100],
    )


def resource_of(driver: str) -> str:
    """The resource that the ordinary plugin of the same devices offers."""
    return DOMAINS.get(driver, f"{driver}/gpu")
