"""What a pod asks for: the effective requests of its containers and its share of a GPU.

The max formula itself is `planner.resources.effective_requests`; the parts of devices are read by `wishes`.
Shares that stand in annotations (KAI, run:ai, Alibaba) are added here, since no resource tells of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.shapes import by_shape
from apps.kube.translate.values import Warn, brief, child, entries, quantities, whole, whole_or_none
from apps.kube.translate.wishes import (
    HAMI_PARTS,
    OF_NO_NODE,
    ContainerWish,
    asked_of,
    koordinator_cards,
    read_wishes,
    silent,
)
from apps.planner.resources import effective_requests, is_device_resource

FRACTION = "gpu-fraction"
FRACTION_DEVICES = "gpu-fraction-num-devices"
FRACTION_MEMORY = "gpu-memory"
ALLOCATED_MEMORY = "runai-allocated-gpu-memory"
ALIBABA_MILLI = "alibabacloud.com/gpu-milli"
ALIBABA_COUNT = "alibabacloud.com/gpu-count"
RESERVATION_NAMESPACES = ("kai-resource-reservation", "runai-reservation")
RESERVATION_LABEL = "app.runai.resource.reservation"
WHOLE_GPU = "nvidia.com/gpu"
MIG_ANNOTATION = re.compile(r"^nvidia\.com/mig-\dg\.\d+gb(\+[\w.]+)?$")
MOST_DEVICES = 64


@dataclass(frozen=True, slots=True)
class Demand:
    """Fields of `inventory.Pod` with the same names."""

    requests: dict[str, int]
    gpu_milli: int = 1000
    gpu_memory_mib: int | None = None
    reservation: bool = False


def read_demand(
    spec: Mapping[str, Any],
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    warn: Warn,
) -> Demand:
    requests = read_requests(spec, warn)
    if is_reservation(namespace, labels):
        # These pods only keep a device for the fractions on it, which count themselves.
        plain = {name: amount for name, amount in requests.items() if not is_device_resource(name)}
        return Demand(plain, reservation=True)
    if FRACTION in annotations:
        return _fraction(requests, annotations, warn)
    if FRACTION_MEMORY in annotations:
        return _by_memory(requests, annotations, warn)
    if ALIBABA_MILLI in annotations:
        return _by_milli(requests, annotations, warn)
    by_annotation = mig_by_annotation(annotations)
    if not by_annotation:
        return _of_spec_alone(spec, warn)
    return _with_parts({**by_annotation, **requests}, read_wishes(spec, warn))


@by_shape
def _of_spec_alone(spec: Mapping[str, Any], warn: Warn) -> Demand:
    requests = read_requests(spec, silent)
    if not any(map(is_device_resource, requests)):
        return Demand(requests)
    return _with_parts(requests, read_wishes(spec, warn))


def is_reservation(namespace: str, labels: Mapping[str, str]) -> bool:
    """KAI's and run:ai's placeholders, by their namespace or, where it was renamed, by their labels."""
    return (
        namespace in RESERVATION_NAMESPACES
        or labels.get("app") in RESERVATION_NAMESPACES
        or RESERVATION_LABEL in labels
    )


def mig_by_annotation(annotations: Mapping[str, str]) -> dict[str, int]:
    """run:ai gives MIG instances without any resource: `nvidia.com/mig-1g.5gb` is an annotation there."""
    named = (name for name in annotations if "mig-" in name and MIG_ANNOTATION.match(name))
    found = {name: whole(annotations[name]) for name in named}
    return {name: amount for name, amount in found.items() if 0 < amount <= MOST_DEVICES}


@by_shape
def read_requests(spec: Mapping[str, Any], warn: Warn) -> dict[str, int]:
    """The effective requests as the pod's spec has them, whatever its annotations say."""
    inits = [
        (asked_of(container, warn), container.get("restartPolicy") == "Always")
        for container in entries(spec, "initContainers")
    ]
    containers = [asked_of(container, warn) for container in entries(spec, "containers")]
    overhead = quantities(child(spec, "overhead"), warn, "overhead")
    found = effective_requests(containers, inits, overhead)
    whole_pod = asked_of(spec, warn)
    for name, amount in whole_pod.items():
        found[name] = amount + overhead.get(name, 0)
    found.pop("pods", None)
    return {name: amount for name, amount in found.items() if amount > 0}


def after_webhook(wishes: Iterable[ContainerWish]) -> tuple[ContainerWish, ...]:
    """HAMi's webhook gives one GPU to a container that asks for parts of one without a count."""
    return tuple(
        ContainerWish(
            wish.name,
            wish.is_init,
            wish.is_sidecar,
            {**wish.devices, WHOLE_GPU: 1},
            wish.memory_mib,
            wish.memory_percent,
            wish.core_percent,
        )
        if HAMI_PARTS & wish.devices.keys() and WHOLE_GPU not in wish.devices
        else wish
        for wish in wishes
    )


def _with_parts(requests: dict[str, int], wishes: tuple[ContainerWish, ...]) -> Demand:
    """The largest part that any of its containers wants of a device, for each of its devices."""
    kept = {name: amount for name, amount in requests.items() if not OF_NO_NODE.match(name)}
    cards = sum(koordinator_cards(wish) for wish in wishes if not wish.is_init)
    percent = max((wish.share_percent or 0 for wish in wishes), default=0)
    memory = max((wish.memory_mib or 0 for wish in wishes), default=0)
    # A share of the memory alone sets no share of the cores: others may be on the same card.
    milli = min(percent * 10, 1000) if percent > 0 else 0 if memory else 1000
    if cards > 1 or (cards and milli == 1000):
        # Koordinator counts percents; the devices behind them are the node's ordinary ones.
        kept = {**kept, WHOLE_GPU: max(kept.get(WHOLE_GPU, 0), cards)}
    return Demand(kept, gpu_milli=milli, gpu_memory_mib=memory or None)


def read_fraction(text: str) -> float | None:
    """A share of one GPU, more than 0 and at most 1."""
    try:
        share = float(text) if len(text) < 40 else math.nan
    except ValueError:
        return None
    return share if 0 < share <= 1 else None


def _fraction(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    text = annotations[FRACTION]
    share, devices = read_fraction(text), whole(annotations.get(FRACTION_DEVICES), 1)
    if share is None or not 1 <= devices <= MOST_DEVICES:
        warn(f"the annotation {FRACTION} {brief(text)!r} is no share of a GPU: counted as a whole one")
        return Demand({**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), 1)})
    if devices > 1 or share == 1:
        requests = {**requests, WHOLE_GPU: devices}
    memory = whole_or_none(annotations.get(ALLOCATED_MEMORY))
    return Demand(
        requests,
        gpu_milli=max(round(share * 1000), 1),
        gpu_memory_mib=memory // devices if memory and memory > 0 else None,
    )


def _by_memory(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    memory = whole_or_none(annotations[FRACTION_MEMORY])
    devices = whole(annotations.get(FRACTION_DEVICES), 1)
    wanted = devices if 1 <= devices <= MOST_DEVICES else 1
    if memory is not None and memory > 0:
        several = {WHOLE_GPU: wanted} if wanted > 1 else {}
        return Demand({**requests, **several}, gpu_milli=0, gpu_memory_mib=memory)
    text = brief(annotations[FRACTION_MEMORY])
    warn(f"the annotation {FRACTION_MEMORY} {text!r} is no number of MiB: counted as whole GPUs")
    return Demand({**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), wanted)})


def _by_milli(requests: dict[str, int], annotations: Mapping[str, str], warn: Warn) -> Demand:
    milli = whole_or_none(annotations[ALIBABA_MILLI])
    count = whole(annotations.get(ALIBABA_COUNT), 1)
    if milli is None or not 0 < milli <= 1000:
        warn(f"the annotation {ALIBABA_MILLI} is no share of a GPU: counted as a whole one")
        milli = 1000
    if not 1 <= count <= MOST_DEVICES:
        warn(f"the annotation {ALIBABA_COUNT} is no number of GPUs: counted as one")
        count = 1
    if milli == 1000 or count > 1:
        requests = {**requests, WHOLE_GPU: max(requests.get(WHOLE_GPU, 0), count)}
    return Demand(requests, gpu_milli=milli)
