"""The memory of one card where a node offers that of all its cards as a resource."""

from __future__ import annotations

import re
from collections.abc import Mapping

from apps.kube.translate.counting import Count
from apps.kube.translate.products import Memory
from apps.kube.translate.values import whole_or_none
from apps.kube.translate.vendors import Offer

MIB = 2**20
ALIYUN = "aliyun.com/gpu-mem"
FEWEST_MIB = 1024  # gpushare counts GiB unless told to count MiB; no card has a thousand GiB
SIZES = (
    (re.compile(r"^(?:koordinator\.sh|kubernetes\.io)/gpu-memory$"), 1 / MIB),
    (re.compile(r"^tke\.cloud\.tencent\.com/qgpu-memory$"), 1024),
    (re.compile(r"^tencent\.com/vcuda-memory$"), 256),
    (re.compile(r"^mthreads\.com/sgpu-memory$"), 512),
    (re.compile(r"^cambricon\.com/.+\.smlu\.vmemory$"), 256),
    (re.compile(r"^gpu\.intel\.com/memory\.max$"), 1 / MIB),
    (re.compile(r"^(?:nvidia|amd)\.com/gpumem$"), 1),
)
"""Resource, and MiB in one of its units."""
INTEL_LABEL = "gpu.intel.com/memory.max"


def memory_of_all(offer: Offer, count: Count, labels: Mapping[str, str]) -> Memory | None:
    """None where no such resource is offered, or nobody knows by how many cards."""
    if not count.cards or count.is_least:
        return None
    for name in sorted(offer.forms):
        units = offer.amount(name)
        per_unit = next((size for pattern, size in SIZES if pattern.match(name)), None)
        if name == ALIYUN and units:
            per_unit = 1 if units // count.cards >= FEWEST_MIB else 1024
        if units and per_unit is not None:
            return Memory(int(units * per_unit) // count.cards, None, f"resource {name}", str(units))
    told = whole_or_none(labels.get(INTEL_LABEL)) if offer.cards.vendor == "intel" else None
    return Memory(told // MIB // count.cards, None, f"label {INTEL_LABEL}", str(told)) if told else None
