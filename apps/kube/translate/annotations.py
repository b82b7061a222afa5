"""Reads this project's node annotation that tells who holds which device (the other one: `matrix`).

Anybody who may write a Node may write them, so each value is checked; what cannot be read gives a
sentence and None, never half a truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apps.kube.translate.values import Warn, brief, clean, entries, seconds_of, whole, whole_or_none
from apps.planner.inventory import Holding

HOLDERS = "topology.gpu.internal/holders"
LONGEST_ANNOTATION = 256 * 1024  # what Kubernetes allows for all of an object's annotations


def read_holders(value: str, warn: Warn) -> tuple[tuple[Holding, ...], float] | None:
    """(holdings, when observed), or None if the annotation cannot be relied on."""
    document = _load(value, HOLDERS, warn)
    if document is None:
        return None
    observed_at = seconds_of(document.get("observed_at"))
    devices = document.get("devices")
    if observed_at is None or not isinstance(devices, dict):
        warn(f"the annotation {HOLDERS} lacks devices or a readable observed_at: holders are unknown")
        return None
    holdings: list[Holding] = []
    for device in devices:
        for holder in entries(devices, device):
            holding = _holding(device, holder)
            if holding is None:
                warn(f"the annotation {HOLDERS} has a bad holder of {brief(device)}: holders are unknown")
                return None
            holdings.append(holding)
    return tuple(holdings), observed_at


def _holding(device: str, holder: Mapping[str, Any]) -> Holding | None:
    uid = clean(holder.get("uid"), 100)
    milli = whole(holder.get("milli"), 1000)
    if not uid or not device or not 0 < milli <= 1000:
        return None
    memory = whole_or_none(holder.get("memory_mib"))
    return Holding(uid, clean(device, 100), milli, memory, clean(holder.get("container"), 253))


def _load(value: str, name: str, warn: Warn) -> Mapping[str, Any] | None:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        warn(f"the annotation {name} is no JSON")
        return None
    if not isinstance(document, dict) or document.get("version") != 1:
        warn(f"the annotation {name} is not of version 1")
        return None
    return document
