"""How many physical devices HAMi's plugins registered on a node, and into how many units each is dealt.

Their resources count units, so capacity alone would make one card ten. Other facts of a record (memory,
cores, health) are not read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from apps.kube.translate.values import Warn, whole

REGISTER = re.compile(r"^hami\.io/node-(?:register-(?P<named>.+)|(?P<family>.+)-register)$")
HANDSHAKE = "hami.io/node-handshake"
FAMILIES = {"mlu": "cambricon.com", "dcu": "hygon.com", "nvidia": "nvidia.com", "amd": "amd.com"}
FEWEST_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Register:
    """units: of the resource, over all devices."""

    devices: int
    units: int


def read_register(resource: str, annotations: Mapping[str, str], warn: Warn) -> Register | None:
    """What is registered for that resource, None if nothing is. A plugin that left is told (drift)."""
    for key in sorted(annotations):
        found = REGISTER.match(key)
        family = (found["named"] or found["family"]) if found else ""
        if not found or not _speaks_of(family, resource):
            continue
        if _is_deleted(family, annotations):
            warn(
                f"HAMi's handshake for {family} says Deleted_, yet {resource} is still offered: is it stale?"
            )
        counts, damaged = _unit_counts(annotations[key])
        if damaged:
            warn(f"the annotation {key} has {damaged} records that cannot be read")
        if counts:
            return Register(len(counts), sum(counts))
    return None


def _speaks_of(family: str, resource: str) -> bool:
    domain, _, name = resource.partition("/")
    return FAMILIES.get(family.lower(), "") == domain or family.lower() == name.lower()


def _is_deleted(family: str, annotations: Mapping[str, str]) -> bool:
    told = annotations.get(f"{HANDSHAKE}-{family}")
    if told is None and family == "nvidia":
        told = annotations.get(HANDSHAKE)
    return (told or "").startswith("Deleted_")


def _unit_counts(text: str) -> tuple[list[int], int]:
    """(units of each device that can be read, number of damaged records)."""
    if text.lstrip().startswith("["):
        try:
            records = json.loads(text)
        except (ValueError, RecursionError):
            return [], 1
        told = [record.get("count") if isinstance(record, dict) else None for record in records]
    else:
        rows = [row.split(",") for row in text.strip().split(":") if row.strip()]
        told = [row[1] if len(row) >= FEWEST_FIELDS else None for row in rows]
    counts = [units for units in (whole(count) for count in told) if 0 < units <= 10_000]
    return counts, len(told) - len(counts)
