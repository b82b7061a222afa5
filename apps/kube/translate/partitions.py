"""Which groups of GPUs a node's hardware allows, as Koordinator's annotation lists them by size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.values import Warn, clean, whole_or_none

POLICY = "node.koordinator.sh/gpu-partition-policy"
MOST_GROUPS = 512
LARGEST = 256


@dataclass(frozen=True, slots=True)
class Partition:
    minors: tuple[int, ...]
    link: str = ""


@dataclass(frozen=True, slots=True)
class Partitions:
    """groups: by size. policy: "Honor" makes them the only legal placements, "Prefer" the better ones; ""
    if nobody says."""

    groups: Mapping[int, tuple[Partition, ...]]
    policy: str = ""

    @property
    def missing_sizes(self) -> tuple[int, ...]:
        """Up to the largest, by powers of two, as jobs ask for them."""
        largest = max(self.groups, default=0)
        sizes = (1, 2, 4, 8, 16, 32, 64)
        return tuple(size for size in sizes if size <= largest and not self.groups.get(size))

    @property
    def sentence(self) -> str:
        missing = " or ".join(str(size) for size in self.missing_sizes)
        if not missing:
            return ""
        if self.policy == "Honor":
            return f"No group of {missing} GPUs is allowed: a pod that asks for that many fits nowhere here."
        if self.policy:
            return f"No group of {missing} GPUs is listed: any will do."
        return f"No group of {missing} GPUs is listed: where the policy is Honor, none fits."


def read_partitions(text: str, labels: Mapping[str, str], warn: Warn) -> Partitions | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        warn("the annotation gpu-partitions is no JSON object: the allowed groups are unknown")
        return None
    groups: dict[int, tuple[Partition, ...]] = {}
    for size, listed in told.items():
        number = whole_or_none(size)
        found = [one for one in map(_partition, _flat(listed)) if one is not None]
        if number is None or not 0 < number <= LARGEST or any(len(one.minors) != number for one in found):
            warn(f"the annotation gpu-partitions has groups of {clean(size, 20)} that are not of that size")
            continue
        groups[number] = tuple(found[:MOST_GROUPS])
    policy = clean(labels.get(POLICY), 40)
    return Partitions({size: groups[size] for size in sorted(groups)}, policy)


def _flat(listed: Any) -> list[Mapping[str, Any]]:
    """Groups stand in the list, in newer writing under their link's name."""
    found: list[Mapping[str, Any]] = []
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict):
            inner = [one for one in entry.values() if isinstance(one, dict) and "minors" in one]
            found += inner or [entry]
    return found


def _partition(entry: Mapping[str, Any]) -> Partition | None:
    minors = entry.get("minors")
    if not isinstance(minors, list):
        return None
    numbers = [whole_or_none(one) for one in minors]
    told = tuple(one for one in numbers if one is not None and 0 <= one < LARGEST)
    return Partition(told, clean(entry.get("gpuLinkType"), 40)) if len(told) == len(numbers) else None
