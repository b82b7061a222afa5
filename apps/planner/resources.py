"""Amounts of resources: Kubernetes quantities, what a pod really asks for, and which names mean GPUs.

Not in here: what is left on a node (rooms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from apps.planner.inventory import LinkClass, Pod, Quantities

QUANTITY = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i|)$")
SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{name: Decimal(1000) ** power for power, name in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}

WHOLE_GPU_RESOURCES = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "huawei.com/Ascend910",
        "huawei.com/Ascend310",
        "hygon.com/dcunum",
        "cambricon.com/mlu",
        "metax-tech.com/gpu",
        "iluvatar.ai/gpu",
        "mthreads.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
    }
)
DEVICE_PREFIXES = (
    "nvidia.com/gpu",
    "nvidia.com/mig-",
    "amd.com/",
    "huawei.com/Ascend",
    "cambricon.com/",
    "hygon.com/",
    "metax-tech.com/",
    "iluvatar.ai/",
    "mthreads.com/",
    "gpu.intel.com/",
    "aliyun.com/gpu",
)


def parse_quantity(text: str | int | float, resource: str = "") -> int:
    """A Kubernetes quantity as an integer: millicores for "cpu", else bytes or a count, rounded up.

    Raises ValueError naming the text and the resource.
    """
    found = QUANTITY.match(str(text).strip())
    if found is None:
        raise ValueError(f"{str(text)[:40]!r} is no quantity of {resource or 'a resource'}")
    number, suffix = found.groups()
    scale = SUFFIXES.get(suffix)
    if scale is None:
        if abs(int(suffix[1:])) > 30:
            raise ValueError(f"{str(text)[:40]!r} is out of range for {resource or 'a resource'}")
        scale = Decimal(10) ** int(suffix[1:])
    value = Decimal(number) * scale * (1000 if resource == "cpu" else 1)
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def add_quantities(parts: Iterable[Quantities]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def effective_requests(
    containers: Iterable[Quantities],
    inits: Iterable[tuple[Quantities, bool]] = (),
    overhead: Quantities | None = None,
) -> dict[str, int]:
    """What a pod asks for: the most that any moment of its life needs, resource by resource.

    inits: (requests, is_sidecar) in the order of the pod; a sidecar keeps running beside all
    that start after it. overhead: of the runtime class, added on top.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for requests, is_sidecar in inits:
        moment = add_quantities((sidecars, requests))
        if is_sidecar:
            sidecars = moment
        for name, amount in moment.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in add_quantities((sidecars, *containers)).items():
        peak[name] = max(peak.get(name, 0), amount)
    return add_quantities((peak, overhead or {}))


def is_device_resource(name: str) -> bool:
    """Whether the resource is an accelerator in any form: a whole one, a share, a MIG instance."""
    return name.startswith(DEVICE_PREFIXES)


def asks_gpu(pod: Pod) -> bool:
    """Whether the pod asks for any accelerator at all; what makes a node not "free"."""
    return pod.gpu_milli < 1000 or any(
        amount > 0 and is_device_resource(name) for name, amount in pod.requests.items()
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod's requests taken apart for placement.

    resources: everything but whole GPUs, sorted. gpus: devices wanted, each with `milli` of
    it (1000 is a whole one). gpu_resource: "" if none is wanted.
    """

    resources: tuple[tuple[str, int], ...] = ()
    gpu_resource: str = ""
    gpus: int = 0
    milli: int = 0
    link: LinkClass | None = None
    ports: tuple[int, ...] = ()

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.milli


def demand_of(pod: Pod, extra_gpu_resources: frozenset[str] = frozenset()) -> Demand:
    """extra_gpu_resources: names that the cluster's nodes use for whole GPUs, beside the known ones."""
    resources: list[tuple[str, int]] = []
    gpu_resource, gpus = "", 0
    for name in sorted(pod.requests):
        amount = pod.requests[name]
        if amount <= 0:
            continue
        if not gpu_resource and (name in WHOLE_GPU_RESOURCES or name in extra_gpu_resources):
            gpu_resource, gpus = name, amount
        else:
            resources.append((name, amount))
    if pod.gpu_milli < 1000:
        gpu_resource, gpus = gpu_resource or "nvidia.com/gpu", max(gpus, 1)
    return Demand(
        resources=tuple(resources),
        gpu_resource=gpu_resource,
        gpus=gpus,
        milli=pod.gpu_milli if gpus else 0,
        link=pod.link if gpus > 1 else None,
        ports=tuple(sorted(pod.host_ports)),
    )


def scale_text(amount: int, resource: str) -> str:
    """An amount as people write it: "16 cores", "64 GiB", "3"."""
    if resource == "cpu":
        return f"{amount / 1000:g} cores"
    if resource in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:.4g} GiB"
    return str(amount)
