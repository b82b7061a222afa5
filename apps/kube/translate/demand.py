"""What a pod asks for: the effective requests of its containers and its share of a GPU.

The max formula itself is `planner.resources.effective_requests`. Shares are read where a pod says
them plainly (KAI's fraction, HAMi's cores and memory); other vendors' forms stay plain resources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.values import Warn, brief, child, entries, quantities, whole, whole_or_none
from apps.planner.resources import effective_requests, is_device_resource

FRACTION = "gpu-fraction"
FRACTION_DEVICES = "gpu-fraction-num-devices"
FRACTION_MEMORY = "gpu-memory"
ALIBABA_MILLI = "alibabacloud.com/gpu-milli"
HAMI_CORES = ("nvidia.com/gpucores", "nvidia.com/gpumem-percentage")
HAMI_MEMORY = "nvidia.com/gpumem"
RESERVATION_NAMESPACES = ("kai-resource-reservation", "runai-reservation")
WHOLE_GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Demand:
    """Fields of `inventory.Pod` with the same names."""

    requests: dict[str, int]
    gpu_milli: int = 1000
    gpu_memory_mib: int | None = None


def read_demand(
    spec: Mapping[str, Any], namespace: str, annotations: Mapping[str, str], warn: Warn
) -> Demand:
    requests = _requests(spec, warn)
    if namespace in RESERVATION_NAMESPACES:
        # These pods only keep a device for the fractions on it, which count themselves.
        return Demand({name: amount for name, amount in requests.items() if not is_device_resource(name)})
    if FRACTION in annotations:
        return _fraction(requests, annotations, warn)
    if FRACTION_MEMORY in annotations:
        return _by_memory(requests, annotations, warn)
    if ALIBABA_MILLI in annotations:
        return _by_milli(requests, annotations, warn)
    return _hami_share(requests, _hami_percent(spec))


def _requests(spec: Mapping[str, Any], warn: Warn) -> dict[str, int]:
    inits = [
        (_asked(container, warn), container.get("restartPolicy") == "Always")
        for container in entries(spec, "initContainers")
    ]
    containers = [_asked(container, warn) for container in entries(spec, "containers")]
    overhead = quantities(child(spec, "overhead"), warn, "overhead")
    found = effective_requests(containers, inits, overhead)
    whole_pod = _asked(spec, warn)
    for name, amount in whole_pod.items():
        found[name] = amount + overhead.get(name, 0)
    found.pop("pods", None)
    return {name: amount for name, amount in found.items() if amount > 0}


def _asked(holder: Mapping[str, Any], warn: Warn) -> dict[str, int]:
    """Requests, with limits standing in where only they are given (as the API server defaults them)."""
    limits = quantities(child(holder, "resources", "limits"), warn, "limits")
    return {**limits, **quantities(child(holder, "resources", "requests"), warn, "requests")}


def _fraction(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    text = annotations[FRACTION]
    try:
        share = float(text) if len(text) < 40 else math.nan
    except ValueError:
        share = math.nan
    devices = whole(annotations.get(FRACTION_DEVICES), 1)
    if not 0 < share <= 1 or not 1 <= devices <= 64:
        warn(f"the annotation {FRACTION} {brief(text)!r} is no share of a GPU: counted as a whole one")
        return Demand({**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), 1)})
    if devices > 1 or share == 1:
        requests = {**requests, WHOLE_GPU: devices}
    return Demand(requests, gpu_milli=max(round(share * 1000), 1))


def _by_memory(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    memory = whole_or_none(annotations[FRACTION_MEMORY])
    warn(f"its share of a GPU is told only as memory ({FRACTION_MEMORY}): counted as a whole one")
    return Demand({**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), 1)}, gpu_memory_mib=memory)


def _by_milli(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    milli = whole_or_none(annotations[ALIBABA_MILLI])
    if milli is None or not 0 < milli <= 1000:
        warn(f"the annotation {ALIBABA_MILLI} is no share of a GPU: counted as a whole one")
        milli = 1000
    if milli == 1000:
        requests = {**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), 1)}
    return Demand(requests, gpu_milli=milli)


def _hami_percent(spec: Mapping[str, Any]) -> int:
    """The largest share of a device that any of its containers asks for, in percent; 0 without one."""
    asked = [
        whole(child(container, "resources", part).get(name))
        for container in [*entries(spec, "containers"), *entries(spec, "initContainers")]
        for part in ("limits", "requests")
        for name in HAMI_CORES
    ]
    return max(asked, default=0)


def _hami_share(requests: dict[str, int], percent: int) -> Demand:
    """HAMi's extender deals out cores and memory; no node advertises them, so they are no plain resources."""
    kept = {name: amount for name, amount in requests.items() if name not in (*HAMI_CORES, HAMI_MEMORY)}
    milli = min(percent * 10, 1000) if percent > 0 else 1000
    return Demand(kept, gpu_milli=milli, gpu_memory_mib=requests.get(HAMI_MEMORY))
