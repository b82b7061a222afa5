"""What each container of a pod asks of devices, in the words of every device plugin and share scheduler.

Counts of devices are kept apart from the parts of one: memory in MiB, memory and cores in percent. A count
says how many units; the parts are of each unit, as the schedulers deal them out. What was given in the end is
`allocated`'s part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.kube.translate.shapes import by_shape
from apps.kube.translate.values import Warn, child, clean, entries, quantities
from apps.planner.resources import is_device_resource

MEMORY, MEMORY_PERCENT, CORES = "memory", "memory percent", "cores"
METAX_MEMORY = "metax-tech.com/vmemory"
PARTS: dict[str, tuple[str, int]] = {
    "nvidia.com/gpumem": (MEMORY, 1),
    "nvidia.com/gpumem-percentage": (MEMORY_PERCENT, 1),
    "nvidia.com/gpucores": (CORES, 1),
    "volcano.sh/vgpu-memory": (MEMORY, 1),
    "volcano.sh/vgpu-memory-percentage": (MEMORY_PERCENT, 1),
    "volcano.sh/vgpu-cores": (CORES, 1),
    "volcano.sh/gpu-memory": (MEMORY, 1),
    "hygon.com/dcumem": (MEMORY, 1),
    "hygon.com/dcucores": (CORES, 1),
    METAX_MEMORY: (MEMORY, 1024),
    "metax-tech.com/vcore": (CORES, 1),
    "cambricon.com/mlu.smlu.vmemory": (MEMORY, 256),
    "cambricon.com/mlu.smlu.vcore": (CORES, 1),
    "mthreads.com/sgpu-memory": (MEMORY, 512),
    "kunlunxin.com/vxpu-memory": (MEMORY, 1),
    "enflame.com/vgcu-percentage": (MEMORY_PERCENT, 1),
    "aliyun.com/gpu-core.percentage": (CORES, 1),
    "tencent.com/vcuda-core": (CORES, 1),
    "tencent.com/vcuda-memory": (MEMORY, 256),
    "tke.cloud.tencent.com/qgpu-core": (CORES, 1),
    "tke.cloud.tencent.com/qgpu-memory": (MEMORY, 1024),
    "koordinator.sh/gpu-core": (CORES, 1),
    "koordinator.sh/gpu-memory-ratio": (MEMORY_PERCENT, 1),
    "kubernetes.io/gpu-core": (CORES, 1),
    "kubernetes.io/gpu-memory-ratio": (MEMORY_PERCENT, 1),
}
"""Resource -> (what part of a device, MiB or percent in one unit of it)."""
CARD_OF = {"alibabacloud.com/gpu-milli": 1000, "mthreads.com/sgpu-core": 16}
"""Resource -> how many units of it one device's cores are, where these are no percents."""
PARTS_BY_FORM = (
    (re.compile(r"^huawei\.com/Ascend[^/]*-memory$"), (MEMORY, 1)),
    (re.compile(r"^iluvatar\.ai/.+\.vMem$"), (MEMORY, 256)),
    (re.compile(r"^iluvatar\.ai/.+\.vCore$"), (CORES, 1)),
    (re.compile(r"^cambricon\.com/mlu[^/]*\.smlu\.vmemory$"), (MEMORY, 256)),
    (re.compile(r"^cambricon\.com/mlu[^/]*\.smlu\.vcore$"), (CORES, 1)),
)
KOORDINATOR_BYTES = ("koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory")
KOORDINATOR_BOTH = ("koordinator.sh/gpu", "kubernetes.io/gpu")
KOORDINATOR_CARDS = ("koordinator.sh/gpu.shared", "koordinator.sh/gpu-shared")
IN_PERCENT_OF_ALL = frozenset(
    f"{domain}/gpu{part}"
    for domain in ("koordinator.sh", "kubernetes.io")
    for part in ("", "-core", "-memory-ratio")
)
"""Koordinator's percents are of all the cards of a container together: 200 are two whole ones."""
OF_NO_NODE = re.compile(
    r"^(nvidia\.com/(gpumem|gpumem-percentage|gpucores|priority)|hygon\.com/dcu(mem|cores)"
    r"|metax-tech\.com/v(memory|core)|huawei\.com/Ascend[^/]*-memory|iluvatar\.ai/.+\.v(Mem|Core))$"
)
"""HAMi's extender deals these out; no node advertises them, so they are no plain resources."""
HAMI_PARTS = frozenset({"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})
MOST_CARDS = 256
LARGEST_CARD_MIB = 1024 * 1024
"""A TiB. No device comes near; what asks for more has mistaken the unit."""
SUFFIXES_OF_BYTES = ("Ki", "Mi", "Gi", "Ti", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class ContainerWish:
    """devices: every accelerator resource as it stands there. memory_mib and the percents: of each unit,
    None where nothing is said."""

    name: str
    is_init: bool = False
    is_sidecar: bool = False
    devices: Mapping[str, int] = field(default_factory=dict)
    memory_mib: int | None = None
    memory_percent: int | None = None
    core_percent: int | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Devices, without the parts of them."""
        return {name: amount for name, amount in self.devices.items() if not is_part(name) and amount > 0}

    @property
    def share_percent(self) -> int | None:
        """Of one device, the larger of its two parts in percent."""
        told = [part for part in (self.memory_percent, self.core_percent) if part]
        return max(told, default=None)


def is_part(resource: str) -> bool:
    """Whether it is memory or cores of a device (or its rank among others) and no device."""
    return (
        resource in PARTS
        or resource in CARD_OF
        or resource in (*KOORDINATOR_BYTES, "nvidia.com/priority", "aliyun.com/gpu-mem")
        or part_of(resource) is not None
    )


def part_of(resource: str) -> tuple[str, int] | None:
    if resource in PARTS:
        return PARTS[resource]
    return next((part for form, part in PARTS_BY_FORM if form.match(resource)), None)


@by_shape
def read_wishes(spec: Mapping[str, Any], warn: Warn) -> tuple[ContainerWish, ...]:
    """Init containers first, in the order of the pod."""
    return (
        *(_wish(one, warn, is_init=True) for one in entries(spec, "initContainers")),
        *(_wish(one, warn, is_init=False) for one in entries(spec, "containers")),
    )


def asked_of(holder: Mapping[str, Any], warn: Warn) -> dict[str, int]:
    """Requests, with limits standing in where only they are given (as the API server defaults them)."""
    limits = quantities(child(holder, "resources", "limits"), warn, "limits", are_asked=True)
    requests = quantities(child(holder, "resources", "requests"), warn, "requests", are_asked=True)
    return {**limits, **requests}


def _wish(container: Mapping[str, Any], warn: Warn, *, is_init: bool) -> ContainerWish:
    name = clean(container.get("name"), 253)
    asked = {key: amount for key, amount in asked_of(container, silent).items() if is_device_resource(key)}
    if not asked:
        return ContainerWish(name, is_init, is_init and container.get("restartPolicy") == "Always")
    parts = _parts(asked)
    _warn_of_units(container, name, asked, warn)
    return ContainerWish(
        name=name,
        is_init=is_init,
        is_sidecar=is_init and container.get("restartPolicy") == "Always",
        devices=asked,
        memory_mib=parts.get(MEMORY),
        memory_percent=parts.get(MEMORY_PERCENT),
        core_percent=parts.get(CORES),
    )


def _parts(asked: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    cards = max((asked.get(name, 0) for name in KOORDINATOR_CARDS), default=0)
    for name, amount in asked.items():
        part = (CORES, 1) if name in KOORDINATOR_BOTH else part_of(name)
        if name in CARD_OF and amount > 0:
            found[CORES] = max(found.get(CORES, 0), amount * 100 // CARD_OF[name])
        if part is None or amount <= 0:
            continue
        kind, unit = part
        amount = amount >> 20 if _is_in_bytes(name, amount) else amount * unit
        if name in IN_PERCENT_OF_ALL:
            amount //= cards or max(-(-amount // 100), 1)
        found[kind] = max(found.get(kind, 0), amount)
    in_bytes = max((asked.get(name, 0) for name in KOORDINATOR_BYTES), default=0)
    if in_bytes:
        found[MEMORY] = in_bytes // (1 << 20) // max(cards, 1)
    if CORES in found and any(name in asked for name in KOORDINATOR_BOTH):
        found.setdefault(MEMORY_PERCENT, found[CORES])
    return found


def _is_in_bytes(name: str, amount: int) -> bool:
    """HAMi takes MetaX' memory with a unit behind it ("2048Mi"), or else as GiB."""
    return name == METAX_MEMORY and amount >= 1 << 20


def koordinator_cards(wish: ContainerWish) -> int:
    """How many cards a container wants of Koordinator, which counts percents of all of them together."""
    cards = max((wish.devices.get(name, 0) for name in KOORDINATOR_CARDS), default=0)
    percent = max((wish.devices.get(name, 0) for name in IN_PERCENT_OF_ALL), default=0)
    return min(cards or -(-percent // 100), MOST_CARDS)


def _warn_of_units(container: Mapping[str, Any], name: str, asked: Mapping[str, int], warn: Warn) -> None:
    for resource, amount in asked.items():
        part = part_of(resource)
        is_believable = _is_in_bytes(resource, amount) or amount * (part or ("", 1))[1] <= LARGEST_CARD_MIB
        if part is None or part[0] != MEMORY or is_believable:
            continue
        text = clean(asked_text(container, resource), 40)
        meant = f" (was {amount >> 20} meant, for {text}?)" if text.endswith(SUFFIXES_OF_BYTES) else ""
        warn(
            f"its container {name} asks for {amount} {resource}, which counts MiB: "
            f"no device has that much{meant}"
        )


def asked_text(container: Mapping[str, Any], resource: str) -> object:
    """The amount as it is written."""
    resources = child(container, "resources")
    return child(resources, "requests").get(resource, child(resources, "limits").get(resource, ""))


def silent(_sentence: str) -> None:
    """The same amounts are read, and told, once more as requests."""
