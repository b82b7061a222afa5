"""Amounts of resources: Kubernetes quantities, what a pod really asks for, and which names mean GPUs.

Not in here: what is left on a node (rooms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from apps.planner.inventory import LinkClass, Pod, Quantities

LEAST = 1
"""Milli-GPU that a share of the memory alone counts as: its card is no longer whole."""
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
"""The ordinary ones, which go before any other where a node offers several."""
VENDORS = {
    "nvidia.com": "nvidia",
    "amd.com": "amd",
    "huawei.com": "ascend",
    "cambricon.com": "cambricon",
    "hygon.com": "hygon",
    "metax-tech.com": "metax",
    "iluvatar.ai": "iluvatar",
    "iluvatar.com": "iluvatar",
    "mthreads.com": "mthreads",
    "gpu.intel.com": "intel",
    "habana.ai": "habana",
    "enflame.com": "enflame",
    "kunlunxin.com": "kunlun",
    "birentech.com": "biren",
    "vastaitech.com": "vastai",
}
DEVICE_WORDS = re.compile(r"gpu|dcu|mlu|cuda|ascend|neuron|gaudi|accel|qaic|(?<![a-z])v?(?:npu|tpu|xpu|hpu)")
BESIDE_DEVICES = ("monitoring", "rdma", "hostdev", "sriov", "roce", "mlnx", "mlx", "nics")
PARTS_OF_DEVICES = ("mem", "core", "percent", "bandwidth", "-milli", "slice", "tile", "mig-")
COUNTED_IN_PERCENT = ("koordinator.sh/", "kubernetes.io/gpu")
"""Koordinator's resources, today's and its first ones: 100 of them are one device, whose ordinary name
counts it."""
KOORDINATORS_FIRST = re.compile(r"^kubernetes\.io/gpu(?:-core|-memory|-memory-ratio)?$")


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


@lru_cache(maxsize=4096)
def is_device_resource(name: str) -> bool:
    """Whether the resource is an accelerator in any form: a whole one, a share, a MIG instance.

    A vendor never heard of counts too, by its words; network cards of GPU vendors do not.
    """
    domain, slash, short = name.lower().partition("/")
    if not slash or "." not in domain or domain.endswith("kubernetes.io"):
        return KOORDINATORS_FIRST.match(name) is not None
    if any(word in short for word in BESIDE_DEVICES):
        return False
    return domain in VENDORS or DEVICE_WORDS.search(name.lower()) is not None


@lru_cache(maxsize=4096)
def counts_devices(name: str) -> bool:
    """Whether one unit of it is a whole accelerator (or, where devices are shared in time, a turn on one)."""
    short = name.partition("/")[2].lower()
    if name.startswith(COUNTED_IN_PERCENT):
        return False
    return is_device_resource(name) and not any(word in short for word in PARTS_OF_DEVICES)


def asks_gpu(pod: Pod) -> bool:
    """Whether the pod asks for any accelerator at all; what makes a node not "free"."""
    if pod.reservation:
        return False
    if pod.gpu_milli < 1000 or pod.devices:
        return True
    return any(amount > 0 and is_device_resource(name) for name, amount in pod.requests.items())


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod's requests taken apart for placement.

    resources: everything but whole GPUs, sorted. gpus: devices wanted, each with `milli` of
    it (1000 is a whole one) and memory_mib of its memory (None: as much as of its cores).
    gpu_resource: "" if none is wanted.
    """

    resources: tuple[tuple[str, int], ...] = ()
    gpu_resource: str = ""
    gpus: int = 0
    milli: int = 0
    link: LinkClass | None = None
    ports: tuple[int, ...] = ()
    memory_mib: int | None = None

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.milli


def demand_of(pod: Pod, extra_gpu_resources: frozenset[str] = frozenset()) -> Demand:
    """extra_gpu_resources: names that the cluster's nodes use for whole GPUs, whatever they sound like."""
    resources: list[tuple[str, int]] = []
    gpu_resource, gpus = "", 0
    for name in sorted(pod.requests):
        amount = pod.requests[name]
        if amount <= 0:
            continue
        is_whole = counts_devices(name) or name in extra_gpu_resources
        if pod.reservation and (is_whole or is_device_resource(name)):
            continue
        if not gpu_resource and is_whole:
            gpu_resource, gpus = name, amount
        else:
            resources.append((name, amount))
    is_share = pod.gpu_milli < 1000 and not pod.reservation
    if is_share:
        gpu_resource, gpus = gpu_resource or "nvidia.com/gpu", max(gpus, 1)
    return Demand(
        resources=tuple(resources),
        gpu_resource=gpu_resource,
        gpus=gpus,
        milli=max(pod.gpu_milli, LEAST) if gpus else 0,
        link=pod.link if gpus > 1 else None,
        ports=tuple(sorted(pod.host_ports)),
        memory_mib=pod.gpu_memory_mib if gpus and is_share else None,
    )


def scale_text(amount: int, resource: str) -> str:
    """An amount as people write it: "16 cores", "64 GiB", "3"."""
    if resource == "cpu":
        return f"{amount / 1000:g} cores"
    if resource in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:.4g} GiB"
    return str(amount)
