"""Devices of init containers, by the max formula: they are done before the others start, so they add nothing
to a device that the others hold as much of, and only the rest where they hold more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.kube.translate.values import clean, entries
from apps.planner.inventory import HeldDevice

ALL = 1 << 60
"""A device without a set share may be used whole."""


def passing_containers(spec: Mapping[str, Any]) -> frozenset[str]:
    """Init containers that end before the pod's others start; sidecars stay."""
    inits = (one for one in entries(spec, "initContainers") if one.get("restartPolicy") != "Always")
    return frozenset(clean(one.get("name"), 253) for one in inits)


def without_passing(devices: Sequence[HeldDevice], passing: frozenset[str]) -> tuple[HeldDevice, ...]:
    if not passing or not any(held.container in passing for held in devices):
        return tuple(devices)
    staying: dict[tuple[object, ...], list[HeldDevice]] = defaultdict(list)
    peaks: dict[tuple[object, ...], dict[str, list[HeldDevice]]] = defaultdict(lambda: defaultdict(list))
    for held in devices:
        if held.container in passing:
            peaks[_card(held)][held.container].append(held)
        else:
            staying[_card(held)].append(held)
    found = [held for held in devices if held.container not in passing]
    for card, by_container in peaks.items():
        others = staying.get(card)
        largest = max(by_container.values(), key=lambda helds: (_memory(helds), _milli(helds)))
        if not others:
            found += largest
        else:
            more_memory, more_milli = _memory(largest) - _memory(others), _milli(largest) - _milli(others)
            if more_memory > 0 or more_milli > 0:
                found.append(_rest(largest[0], more_memory, more_milli))
    return tuple(found)


def _rest(held: HeldDevice, memory: int, milli: int) -> HeldDevice:
    """What it takes beyond the others; 0 of what it takes no more of."""
    return replace(
        held,
        memory_mib=None if memory >= ALL // 2 else max(memory, 0),
        milli=None if milli >= ALL // 2 else max(milli, 0),
    )


def _card(held: HeldDevice) -> tuple[object, ...]:
    return held.uuid, held.index, held.profile, held.part


def _memory(devices: Iterable[HeldDevice]) -> int:
    return sum(ALL if held.memory_mib is None else held.memory_mib for held in devices)


def _milli(devices: Iterable[HeldDevice]) -> int:
    """Where no share of the cores is set, none is kept from others."""
    return sum(held.milli or 0 for held in devices)
