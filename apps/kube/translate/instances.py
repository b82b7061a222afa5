"""Which MIG instances stand on a node's GPUs where the node agent does not tell.

Amounts say how many there are, not on which GPU: only a lone GPU has them all. Run:ai's annotations say
where each begins.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from apps.kube.translate.values import Warn, clean, whole_or_none
from apps.kube.translate.vendors import Form, Offer
from apps.planner.inventory import Gpu, MigInstance
from apps.planner.mig.catalogue import resource_profile
from apps.planner.mig.nodes import MIG_PREFIX

CONFIG, MAPPING = "run.ai/mig.config", "run.ai/mig-mapping"
STARTS = re.compile(r"^[ \t]+(\d+)\s*:\s*(\d+g\.\d+gb\S*)[ \t\r]*$", re.MULTILINE)
NAMED = re.compile(r"name:\s*(\d+g\.\d+gb\S*)\s*\n\s*position:\s*(\d+)")
MOST_ON_A_GPU = 7


def lay_instances(
    gpus: tuple[Gpu, ...],
    offer: Offer,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    warn: Warn,
) -> tuple[Gpu, ...]:
    if len(gpus) != 1 or gpus[0].instances:
        return gpus
    counts = _counts(offer, labels)
    if not counts:
        return gpus
    placed = _placed(annotations)
    if placed and Counter(one.profile for one in placed) == counts:
        return (replace(gpus[0], instances=placed),)
    if placed:
        told = ", ".join(sorted(one.profile for one in placed))
        warn(
            f"the annotation {CONFIG} says {told}, the kubelet offers other MIG instances: starts are unknown"
        )
    instances = tuple(MigInstance(name) for name in sorted(counts) for _ in range(counts[name]))
    return (replace(gpus[0], instances=instances),)


def _counts(offer: Offer, labels: Mapping[str, str]) -> dict[str, int]:
    """By profile. An instance that is shared in time is offered once for each turn."""
    found: dict[str, int] = {}
    for name in offer.named(Form.MIG):
        profile = name.removeprefix(MIG_PREFIX).removesuffix(".shared")
        turns = whole_or_none(labels.get(f"nvidia.com/mig-{profile}.replicas")) or 1
        amount = min(-(-offer.amount(name) // max(turns, 1)), MOST_ON_A_GPU)
        if amount:
            found[resource_profile(profile)] = amount
    return found


def _placed(annotations: Mapping[str, str]) -> tuple[MigInstance, ...]:
    text = annotations.get(CONFIG, "")
    found = [(int(start), name) for start, name in STARTS.findall(text)]
    found += [(int(start), name) for name, start in NAMED.findall(text)]
    uuids = _uuids(annotations.get(MAPPING, ""))
    if len({start for start, _ in found}) != len(found):
        return ()
    return tuple(MigInstance(name, start, uuids.get(start, "")) for start, name in sorted(found))


def _uuids(text: str) -> dict[int, str]:
    """By start, of the only GPU that it speaks of: {"gpu": {"start": "MIG-…"}}, or a list of positions."""
    try:
        told = json.loads(base64.b64decode(text, validate=True))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(told, dict) or len(told) != 1:
        return {}
    (one,) = told.values()
    if isinstance(one, list):
        one = {entry.get("position"): entry.get("device_uuid") for entry in one if isinstance(entry, dict)}
    if not isinstance(one, dict):
        return {}
    found = {whole_or_none(start): clean(uuid, 100) for start, uuid in one.items()}
    return {start: uuid for start, uuid in found.items() if start is not None and uuid}
