"""ResourceSlices become pools of devices.

A driver describes its devices in pools of one or more slices. Only the newest generation of a pool counts,
and only once all of its slices are there. A card that can be cut is described once whole and once for each
way to cut it: those are alternatives for the same silicon and are never summed (`pool_cards` puts them
together). Pure functions of the API's JSON, of resource.k8s.io/v1 as of its betas (where a device's facts
stand under `basic`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.kube.translate.values import brief, child, clean, entries, quantities, whole
from apps.planner.resources import is_device_resource

UNUSABLE = ("NoSchedule", "NoExecute")
CUT = re.compile(r"^(?P<card>.+?)-mig-(?P<profile>.+)-\d+-(?P<start>\d+)$")
NAMED_PROFILE = re.compile(r"^(\d+)g\.?(\d+)gb(.*)$")
MOST_DEVICES = 20_000
Attributes = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class SlicedDevice:
    """attributes, capacity: by their names without a domain; capacity as it counts (memory in bytes).

    consumes: how much of each counter of each counter set it takes. taint: the reason that makes it unusable,
    "" for none. node: where the device itself says it is.
    """

    name: str
    attributes: Attributes = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    consumes: tuple[tuple[str, Mapping[str, int]], ...] = ()
    taint: str = ""
    node: str = ""

    def text(self, *names: str) -> str:
        told = (self.attributes.get(name) for name in names)
        return next((value for value in told if isinstance(value, str) and value), "")

    def number(self, *names: str) -> int | None:
        for name in names:
            value = self.attributes.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
        return None

    @property
    def is_part(self) -> bool:
        """A piece of a card (a MIG device), or one that could be cut, and no whole card."""
        kind = self.text("type")
        if kind == "mig" or kind.endswith("-partition") or "parentUUID" in self.attributes:
            return True
        return "profile" in self.attributes or CUT.match(self.name) is not None

    @property
    def profile(self) -> str:
        told = self.text("profile") or (self.text("partitionProfile") if self.is_part else "")
        if not told:
            found = CUT.match(self.name)
            told = found["profile"] if found else ""
        form = NAMED_PROFILE.match(told)
        return f"{form[1]}g.{form[2]}gb{form[3]}" if form else told

    @property
    def start_slice(self) -> int | None:
        found = CUT.match(self.name)
        return self.number("placementStart") if found is None else int(found["start"][:4])

    @property
    def is_healthy(self) -> bool:
        return not self.taint and self.attributes.get("healthy") is not False


@dataclass(frozen=True, slots=True)
class Slice:
    """One ResourceSlice. counters: counter set -> counter -> amount. node: "" if it is of no single node."""

    driver: str
    pool: str
    generation: int
    count: int
    node: str = ""
    devices: tuple[SlicedDevice, ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """The newest generation of one driver's pool. problem: why its devices are unknown, "" if they are known;
    then `devices` are those that could be read and count for nothing but being shown."""

    driver: str
    name: str
    generation: int
    node: str
    devices: tuple[SlicedDevice, ...]
    counters: Mapping[str, Mapping[str, int]]
    problem: str = ""
    warnings: tuple[str, ...] = ()


def read_slice(raw: Mapping[str, Any]) -> Slice:
    warnings: list[str] = []
    spec = child(raw, "spec")
    pool = child(spec, "pool")
    devices = entries(spec, "devices")
    if len(devices) > MOST_DEVICES:
        warnings.append(f"a slice with {len(devices)} devices is not believable: they are left out")
        devices = []
    return Slice(
        driver=clean(spec.get("driver"), 253),
        pool=clean(pool.get("name"), 253),
        generation=whole(pool.get("generation")),
        count=whole(pool.get("resourceSliceCount"), 1),
        node=_node_of(spec),
        devices=tuple(_device(one, warnings) for one in devices if clean(one.get("name"))),
        counters={
            clean(one.get("name"), 253): _amounts(child(one, "counters"), warnings)
            for one in entries(spec, "sharedCounters")
        },
        warnings=tuple(warnings[:10]),
    )


def _node_of(found: Mapping[str, Any]) -> str:
    """The one node it is of: named, or selected by its name."""
    named = clean(found.get("nodeName"), 253)
    terms = entries(child(found, "nodeSelector"), "nodeSelectorTerms")
    if named or len(terms) != 1:
        return named
    for match in entries(terms[0], "matchFields"):
        values = match.get("values")
        is_one = match.get("operator") == "In" and isinstance(values, list) and len(values) == 1
        if match.get("key") == "metadata.name" and is_one and isinstance(values, list):
            return clean(values[0], 253)
    return ""


def _device(raw: Mapping[str, Any], warnings: list[str]) -> SlicedDevice:
    facts = child(raw, "basic") or raw
    return SlicedDevice(
        name=clean(raw.get("name"), 253),
        attributes=_attributes(child(facts, "attributes")),
        capacity=_amounts(child(facts, "capacity"), warnings),
        consumes=tuple(
            (clean(one.get("counterSet"), 253), _amounts(child(one, "counters"), warnings))
            for one in entries(facts, "consumesCounters")
        ),
        taint=_taint(entries(facts, "taints")),
        node=_node_of(facts),
    )


def _attributes(found: Mapping[str, Any]) -> Attributes:
    read: dict[str, str | int | bool] = {}
    for name, typed in found.items():
        for value in typed.values() if isinstance(typed, dict) else ():
            if isinstance(value, list) and value:
                value = value[0]  # a device that sits in several places: the first of them
            if isinstance(value, str):
                value = clean(value, 253)
            if isinstance(value, str | int):
                read[clean(name, 253).rpartition("/")[2]] = value
    return read


def _amounts(found: Mapping[str, Any], warnings: list[str]) -> dict[str, int]:
    """Capacity and counters are written as {name: {value: quantity}}, in the first beta without `value`."""
    plain = {
        clean(name, 253).rpartition("/")[2]: one.get("value") if isinstance(one, dict) else one
        for name, one in found.items()
    }
    return quantities(plain, warnings.append, "a device's capacity")


def _taint(taints: list[Mapping[str, Any]]) -> str:
    for taint in taints:
        if taint.get("effect") in UNUSABLE:
            value = clean(taint.get("value"), 100)
            told = "=".join(filter(None, (clean(taint.get("key"), 100), value)))
            return f"{told}:{taint['effect']}"
    return ""


def gather_pools(slices: Iterable[Slice]) -> dict[tuple[str, str], Pool]:
    """By (driver, pool). A generation that is not whole yet makes its pool unknown: the older one is void."""
    found: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        if one.driver and one.pool:
            found.setdefault((one.driver, one.pool), []).append(one)
    return {key: _pool(key, members) for key, members in sorted(found.items())}


def _pool(key: tuple[str, str], members: list[Slice]) -> Pool:
    newest = max(one.generation for one in members)
    slices = [one for one in members if one.generation == newest]
    devices = tuple(device for one in slices for device in one.devices)
    counters = {name: amounts for one in slices for name, amounts in one.counters.items()}
    return Pool(
        driver=key[0],
        name=key[1],
        generation=newest,
        node=next((one.node for one in slices if one.node), ""),
        devices=devices,
        counters=counters,
        problem=_problem(key, slices, devices),
        warnings=tuple(dict.fromkeys(sentence for one in slices for sentence in one.warnings)),
    )


def _problem(key: tuple[str, str], slices: list[Slice], devices: tuple[SlicedDevice, ...]) -> str:
    driver, name = brief(key[0]), brief(key[1])
    wanted = max(one.count for one in slices)
    if len(slices) != wanted or min(one.count for one in slices) != wanted:
        return (
            f"The pool {name} of {driver} has {len(slices)} of the {wanted} slices of its generation "
            f"{slices[0].generation}: its devices are unknown until it is whole."
        )
    names = [device.name for device in devices]
    if len(set(names)) != len(names):
        return f"The pool {name} of {driver} names a device twice: its devices are unknown."
    return ""


def is_of_gpus(driver: str, devices: Iterable[SlicedDevice]) -> bool:
    """Whether a driver deals out accelerators, and not network cards or channels."""
    if is_device_resource(f"{driver}/device"):
        return True
    return any(device.attributes.get("type") in ("gpu", "mig", "vfio") for device in devices)


def can_be_together(pool: Pool, devices: Iterable[SlicedDevice]) -> bool:
    """Whether the counters of the pool suffice for all of them at once."""
    spent: dict[tuple[str, str], int] = {}
    for device in devices:
        for counter_set, amounts in device.consumes:
            for name, amount in amounts.items():
                spent[counter_set, name] = spent.get((counter_set, name), 0) + amount
    return all(amount <= pool.counters.get(of, {}).get(name, 0) for (of, name), amount in spent.items())
