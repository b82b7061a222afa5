"""The series that one node's exporter shows at one time, read from the node object. Pure.

Not here: how long a node has looked so (history), and queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.simulator.controllers.kubelet.devices import CHECKPOINT_ANNOTATION
from apps.simulator.controllers.kubelet.reports import address_of
from apps.simulator.hardware import HOLDERS_ANNOTATION, Device
from apps.simulator.metrics import values
from apps.simulator.mig.layout import Instance
from apps.simulator.mig.offers import instance_memory_mib
from apps.simulator.mig.setup import Setup, setup_of

Json = dict[str, Any]
Labels = dict[str, str]
Value = Callable[[float], float]

STOPPED_ANNOTATION = "sim.gpu.internal/kubelet"
EXPORTER_LABEL = "nvidia.com/gpu.deploy.dcgm-exporter"
DRIVER = "580.95.05"
# Ids that the driver gives to the first instance of so many slices.
_FIRST_ID = {7: 0, 4: 1, 3: 1, 2: 3, 1: 7}

HELP = {
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_RESERVED": "Framebuffer memory reserved (in MiB).",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "Ratio of time the graphics engine is active.",
    "DCGM_FI_PROF_DRAM_ACTIVE": "Ratio of cycles the device memory interface is active.",
}


@dataclass(frozen=True, slots=True)
class Series:
    """labels: as the exporter writes them; the holder's are pod, namespace and container."""

    name: str
    labels: Labels
    value: Value


def exports(node: Json) -> bool:
    """Whether an exporter of NVIDIA GPUs runs there now."""
    annotations = node["metadata"].get("annotations") or {}
    if annotations.get(STOPPED_ANNOTATION) == "stopped":
        return False
    return (node["metadata"].get("labels") or {}).get(EXPORTER_LABEL, "true") == "true"


def look_of(node: Json) -> tuple[str, ...]:
    """All that a node's series follow from; they change only with it."""
    annotations = node["metadata"].get("annotations") or {}
    told = (HOLDERS_ANNOTATION, CHECKPOINT_ANNOTATION)
    private = (f"{key}={annotations[key]}" for key in sorted(annotations) if key.startswith("sim.gpu."))
    own = [text for text in private if not text.startswith(CHECKPOINT_ANNOTATION)]
    holders = [annotations.get(key, "").partition('"devices":')[2] for key in told]
    capacity = str((node.get("status") or {}).get("capacity", {}).get("nvidia.com/gpu"))
    return (str(exports(node)), capacity, *holders, *own)


def has_exporter(node: Json) -> bool:
    """Whether one is meant to run there, be it silent or not."""
    setup = setup_of(node)
    return setup is not None and setup.hardware.model.is_nvidia


def layout_of(node: Json) -> str:
    setup = setup_of(node)
    return str(sorted(setup.layout.items())) if setup else ""


def series_of(node: Json) -> list[Series]:
    setup = setup_of(node) if exports(node) else None
    if setup is None or not setup.hardware.model.is_nvidia:
        return []
    annotations = node["metadata"].get("annotations") or {}
    text = annotations.get(HOLDERS_ANNOTATION) or annotations.get(CHECKPOINT_ANNOTATION)
    holders = json.loads(text)["devices"] if text else {}
    found: list[Series] = []
    for device in setup.hardware.devices:
        if device.index not in setup.lost:
            found += _series_of_device(node["metadata"]["name"], setup, device, holders)
    return found


def _series_of_device(node: str, setup: Setup, device: Device, holders: Json) -> list[Series]:
    labels = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.bus_id,
        "device": f"nvidia{device.index}",
        "modelName": setup.hardware.model.product.replace("-", " "),
        "hostname": node,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
    }
    sick = device.index in setup.unhealthy
    if device.index not in setup.layout:
        load, own = _load_and_labels(device.uuid, holders)
        total = setup.hardware.model.memory_mib
        return [
            *_parent_series({**labels, **own}, [load], sick),
            *_unit_series({**labels, **own}, device.uuid, load, total, holders.get(device.uuid, [])),
            *_whole_series({**labels, **own}, load),
        ]
    found: list[Series] = []
    cut = [(one, *_load_and_labels(one.uuid, holders)) for one in setup.layout[device.index]]
    loads = [load for _, load, _ in cut]
    ids = instance_ids([one for one, _, _ in cut])
    for one, load, own in cut:
        mine = {**labels, "GPU_I_PROFILE": one.profile, "GPU_I_ID": str(ids[one.uuid]), **own}
        total = instance_memory_mib(setup.hardware.model, one.profile)
        found += _parent_series(mine, loads, sick)
        found += _unit_series(mine, one.uuid, load, total, holders.get(one.uuid, []))
    return found or _parent_series(labels, [], sick)


def instance_ids(instances: list[Instance]) -> dict[str, int]:
    """GPU instance ids as drivers give them: by size, then by place. Never one twice on a GPU."""
    ids: dict[str, int] = {}
    for one in sorted(instances):
        free = _FIRST_ID.get(int(one.profile.partition("g.")[0]), 7)
        while free in ids.values():
            free += 1
        ids[one.uuid] = free
    return ids


def _load_and_labels(uuid: str, holders: Json) -> tuple[values.Load, Labels]:
    """Of several holders the exporter names one."""
    held = sorted(holders.get(uuid, []), key=lambda each: (each["namespace"], each["pod"]))
    if not held:
        return values.Load.of(uuid, ""), {}
    first = held[0]
    own = {"pod": first["pod"], "namespace": first["namespace"], "container": first["container"]}
    return values.Load.of(uuid, first["uid"]), own


def _parent_series(labels: Labels, loads: list[values.Load], sick: bool) -> list[Series]:
    """What belongs to the whole GPU; every instance of it repeats the same number."""
    model = labels["modelName"]

    def most(moment: float) -> float:
        return max((load.at(moment) for load in loads), default=0.0)

    xid = values.XID_OF_A_SICK_GPU if sick else 0.0
    return [
        Series("DCGM_FI_DEV_GPU_TEMP", labels, lambda t: values.BLANK if sick else values.degrees(most(t))),
        Series("DCGM_FI_DEV_POWER_USAGE", labels, lambda t: values.watts(model, most(t))),
        Series("DCGM_FI_DEV_XID_ERRORS", labels, lambda t: xid),
    ]


def _unit_series(labels: Labels, uuid: str, load: values.Load, total: int, held: list[Json]) -> list[Series]:
    given, holder = sum(each["memory_mib"] for each in held), held[0]["uid"] if held else ""
    used, reserved = values.used_mib(total, given, uuid, holder), values.reserved_mib(total)
    used = min(used, total - reserved)
    return [
        Series("DCGM_FI_DEV_FB_USED", labels, lambda t: used),
        Series("DCGM_FI_DEV_FB_FREE", labels, lambda t: total - used - reserved),
        Series("DCGM_FI_DEV_FB_RESERVED", labels, lambda t: reserved),
        Series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", labels, load.at),
        Series("DCGM_FI_PROF_DRAM_ACTIVE", labels, lambda t: round(load.at(t) * 0.45, 4)),
    ]


def _whole_series(labels: Labels, load: values.Load) -> list[Series]:
    """Percentages that exist only for a GPU that is not in MIG mode."""
    return [
        Series("DCGM_FI_DEV_GPU_UTIL", labels, lambda t: float(round(100 * load.at(t)))),
        Series("DCGM_FI_DEV_MEM_COPY_UTIL", labels, lambda t: float(round(55 * load.at(t)))),
    ]


def scraped_labels(node: str, labels: Labels) -> Labels:
    """As Prometheus stores them: its own come first, the exporter's of the same name are renamed."""
    own = {
        "container": "nvidia-dcgm-exporter",
        "endpoint": "gpu-metrics",
        "instance": f"{address_of(node, 172)}:9400",
        "job": "nvidia-dcgm-exporter",
        "namespace": "gpu-operator",
        "pod": f"nvidia-dcgm-exporter-{suffix_of(node)}",
        "service": "nvidia-dcgm-exporter",
    }
    return {**{f"exported_{key}" if key in own else key: text for key, text in labels.items()}, **own}


def suffix_of(node: str) -> str:
    letters = "bcdfghjklmnpqrstvwxz2456789"
    number = int(values.draw(node, "exporter") * len(letters) ** 5)
    return "".join(letters[number // len(letters) ** place % len(letters)] for place in range(5))
