"""The device plugin of one node: which container holds which device.

Like the real one it gives whole devices, prefers a well-linked group, and refuses when too few
healthy ones are free. Its memory is the node annotation `topology.gpu.internal/holders`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.simulator.controllers.pace import now, to_text
from apps.simulator.controllers.quantities import container_requests
from apps.simulator.hardware import HOLDERS_ANNOTATION, Hardware

Json = dict[str, Any]

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
    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.unhealthy: frozenset[int] = frozenset()
        self._holders: dict[int, list[Held]] = {device.index: [] for device in hardware.devices}

    def adopt(self, node: Json) -> None:
        """Takes over what the node's annotation says; unknown devices are left out."""
        text = (node["metadata"].get("annotations") or {}).get(HOLDERS_ANNOTATION)
        if not text:
            return
        by_uuid = {device.uuid: device.index for device in self.hardware.devices}
        for uuid, holders in json.loads(text)["devices"].items():
            if uuid in by_uuid:
                self._holders[by_uuid[uuid]] = [
                    Held(**{name: each[name] for name in Held.__slots__}) for each in holders
                ]

    def forget_except(self, uids: Iterable[str]) -> None:
        known = set(uids)
        for index, holders in self._holders.items():
            self._holders[index] = [held for held in holders if held.uid in known]

    def holds(self, uid: str) -> bool:
        return any(held.uid == uid for holders in self._holders.values() for held in holders)

    def free(self) -> list[int]:
        return [i for i, holders in self._holders.items() if not holders and i not in self.unhealthy]

    def allocate(self, pod: Json) -> bool:
        """True when the pod got devices, False when it asks for none. Raises DevicesUnavailable
        with nothing taken."""
        model = self.hardware.model
        wanted = _wanted_by_container(pod, model.resource)
        free = self.free()
        total = sum(count for _, count in wanted)
        if total > len(free):
            raise DevicesUnavailable(model.resource, total, len(free))
        meta = pod["metadata"]
        for container, count in wanted:
            for index in choose_group(self.hardware, self.free(), count):
                held = Held(meta["namespace"], meta["name"], meta["uid"], container, 1000, model.memory_mib)
                self._holders[index].append(held)
        return bool(wanted)

    def release(self, uid: str) -> bool:
        had = self.holds(uid)
        for index, holders in self._holders.items():
            self._holders[index] = [held for held in holders if held.uid != uid]
        return had

    def to_annotation(self, observed_at: str = "") -> str:
        devices = {
            device.uuid: [held.to_json() for held in self._holders[device.index]]
            for device in self.hardware.devices
            if self._holders[device.index]
        }
        document = {"version": 1, "observed_at": observed_at or to_text(now()), "devices": devices}
        return json.dumps(document, separators=(",", ":"))

    def place(self, index: int, held: Held) -> None:
        """For scenes, which say themselves who sits where."""
        self._holders[index].append(held)


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
