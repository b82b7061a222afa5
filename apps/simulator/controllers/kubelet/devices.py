"""The device plugin of one node: which container holds which device.

Like the real one it gives whole devices and MIG instances, prefers a well-linked group, and refuses
when too few healthy ones are free. Its memory is the node annotation `topology.gpu.internal/holders`,
or one of its own where no node agent tells the holders.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apps.simulator.controllers.pace import now, to_text
from apps.simulator.controllers.quantities import container_requests, effective_requests
from apps.simulator.hardware import HOLDERS_ANNOTATION, Hardware
from apps.simulator.mig.offers import MIG_PREFIX, Offers, Unit, list_offers
from apps.simulator.mig.setup import Setup

Json = dict[str, Any]

CHECKPOINT_ANNOTATION = "sim.gpu.internal/device-checkpoint"
_MOST_GROUPS = 4000


class DevicesUnavailable(Exception):
    """requested and available: numbers of devices."""

    def __init__(self, resource: str, requested: int, available: int) -> None:
        super().__init__(
            f"Allocate failed due to requested number of devices unavailable for {resource}. "
            f"Requested: {requested}, Available: {available}, which is unexpected"
        )


@dataclass(frozen=True, slots=True)
class Held:
    """One container's share of one device, in thousandths."""

    namespace: str
    pod: str
    uid: str
    container: str
    milli: int
    memory_mib: int

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}


class DeviceLedger:
    """offers: what the device plugin registered; while it is down, nothing can be handed out."""

    def __init__(self, setup: Setup) -> None:
        self.hardware = setup.hardware
        self.unhealthy: frozenset[int] = setup.broken
        self.is_offline = False
        self.offers: Offers = list_offers(setup)
        self._holders: dict[str, list[Held]] = {}

    def adopt(self, node: Json) -> None:
        """Takes over what the node's annotation says."""
        annotations = node["metadata"].get("annotations") or {}
        text = annotations.get(HOLDERS_ANNOTATION) or annotations.get(CHECKPOINT_ANNOTATION)
        for uuid, holders in json.loads(text)["devices"].items() if text else ():
            self._holders[uuid] = [Held(**{name: each[name] for name in Held.__slots__}) for each in holders]

    def forget_except(self, uids: Iterable[str]) -> None:
        known = set(uids)
        self._keep(lambda held: held.uid in known)

    def holds(self, uid: str) -> bool:
        return any(held.uid == uid for holders in self._holders.values() for held in holders)

    def free(self) -> list[int]:
        """Whole GPUs, by index."""
        whole = {device.uuid for device in self.hardware.devices}
        free = self.free_units(self.hardware.model.resource)
        return [unit.gpu for unit in free if unit.uuid in whole]

    def free_units(self, resource: str) -> list[Unit]:
        if self.is_offline:
            return []
        offered = self.offers.get(resource, ())
        return [unit for unit in offered if unit.uuid not in self._holders and unit.gpu not in self.unhealthy]

    def allocate(self, pod: Json) -> bool:
        """True when the pod got devices, False when it asks for none. Raises DevicesUnavailable
        with nothing taken."""
        wanted = {resource: _wanted_by_container(pod, resource) for resource in self._asked(pod)}
        for resource, parts in wanted.items():
            total, free = sum(count for _, count in parts), len(self.free_units(resource))
            if total > free:
                raise DevicesUnavailable(resource, total, free)
        meta = pod["metadata"]
        for resource, parts in wanted.items():
            for container, count in parts:
                for unit in self._choose(resource, count):
                    memory = unit.memory_mib
                    held = Held(meta["namespace"], meta["name"], meta["uid"], container, 1000, memory)
                    self.place_unit(unit.uuid, held)
        return any(wanted.values())

    def release(self, uid: str) -> bool:
        had = self.holds(uid)
        self._keep(lambda held: held.uid != uid)
        return had

    def to_annotation(self, observed_at: str = "") -> str:
        order = {device.uuid: device.index for device in self.hardware.devices}
        order |= {unit.uuid: unit.gpu for units in self.offers.values() for unit in units}
        devices = {
            uuid: [held.to_json() for held in self._holders[uuid]]
            for uuid in sorted(self._holders, key=lambda uuid: (order.get(uuid, len(order)), uuid))
        }
        document = {"version": 1, "observed_at": observed_at or to_text(now()), "devices": devices}
        return json.dumps(document, separators=(",", ":"))

    def place(self, index: int, held: Held) -> None:
        """For scenes, which say themselves who sits where."""
        self.place_unit(self.hardware.devices[index].uuid, held)

    def place_unit(self, uuid: str, held: Held) -> None:
        self._holders.setdefault(uuid, []).append(held)

    def _asked(self, pod: Json) -> list[str]:
        """Resources of this plugin that the pod names, offered here or not."""
        named = effective_requests(pod["spec"])
        return [
            name
            for name in sorted(named)
            if named[name] and (name == self.hardware.model.resource or name.startswith(MIG_PREFIX))
        ]

    def _choose(self, resource: str, count: int) -> list[Unit]:
        """Well-linked whole GPUs; instances in the order of their GPUs."""
        free = self.free_units(resource)
        by_index = {unit.gpu: unit for unit in free}
        if len(by_index) < len(free) or resource != self.hardware.model.resource:
            return free[:count]
        return [by_index[index] for index in choose_group(self.hardware, list(by_index), count)]

    def _keep(self, wanted: Callable[[Held], bool]) -> None:
        kept = {uuid: [held for held in holders if wanted(held)] for uuid, holders in self._holders.items()}
        self._holders = {uuid: holders for uuid, holders in kept.items() if holders}


def choose_group(hardware: Hardware, free: list[int], count: int) -> tuple[int, ...]:
    """The best-linked `count` of the free devices; among equals the ones that leave the NUMA
    node with the most free devices whole, then the lowest indexes."""
    if count >= len(free):
        return tuple(free)
    groups = itertools.islice(itertools.combinations(free, count), _MOST_GROUPS)
    left = {
        numa: sum(1 for i in free if hardware.devices[i].numa == numa)
        for numa in {device.numa for device in hardware.devices}
    }

    def rate(group: tuple[int, ...]) -> tuple[int, int, int]:
        links = sum(_strength(hardware.links[a][b]) for a, b in itertools.combinations(group, 2))
        numas = {hardware.devices[i].numa for i in group}
        switches = {hardware.devices[i].switch for i in group}
        return links, -len(numas) * 100 - sum(left[numa] for numa in numas), -len(switches)

    return max(groups, key=rate)


def _strength(code: str) -> int:
    if code.startswith("NV"):
        return 100 + int(code[2:])
    return {"HCCS": 100, "PIX": 40, "PXB": 30, "PHB": 20, "NODE": 15}.get(code, 10)


def _wanted_by_container(pod: Json, resource: str) -> list[tuple[str, int]]:
    """Init containers' devices are handed on to the containers, so only the larger need counts."""
    spec = pod["spec"]
    wanted = [(each["name"], container_requests(each)[resource]) for each in spec.get("containers") or []]
    wanted = [(name, count) for name, count in wanted if count]
    inits = [(each["name"], container_requests(each)[resource]) for each in spec.get("initContainers") or []]
    largest = max(inits, key=lambda pair: pair[1], default=("", 0))
    if largest[1] > sum(count for _, count in wanted):
        return [largest]
    return wanted
