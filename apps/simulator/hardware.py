"""What the simulated machines are made of: GPU models, links, labels, and devices of one node.

Everything is a function of the node's name and its model, so a kubelet that starts again finds
the same devices. Not here: who holds a device (controllers/kubelet).
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from apps.simulator.controllers.pace import now, to_text
from apps.simulator.controllers.quantities import parse_quantity

Json = dict[str, Any]
log = logging.getLogger(__name__)

MOST_DEVICES = 128  # of one node
HARDWARE_ANNOTATION = "sim.gpu.internal/hardware"
UNHEALTHY_ANNOTATION = "sim.gpu.internal/unhealthy"
LINKS_ANNOTATION = "sim.gpu.internal/links"
MATRIX_ANNOTATION = "topology.gpu.internal/matrix"
HOLDERS_ANNOTATION = "topology.gpu.internal/holders"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """near, switch, far: link codes inside one PCIe switch pair, one NUMA node, across NUMA nodes.
    nics: network cards per node, spread evenly over the NUMA nodes. pci_id: as mig-parted filters by."""

    product: str
    memory_mib: int
    family: str
    near: str
    switch: str
    far: str
    nics: int = 0
    resource: str = "nvidia.com/gpu"
    pci_id: str = ""

    @property
    def is_nvidia(self) -> bool:
        return self.resource == "nvidia.com/gpu"


MODELS = {
    "a100-sxm4-80gb": GpuModel(
        "NVIDIA-A100-SXM4-80GB", 81920, "ampere", "NV12", "NV12", "NV12", 4, pci_id="0x20B210DE"
    ),
    "a100-sxm4-40gb": GpuModel(
        "NVIDIA-A100-SXM4-40GB", 40960, "ampere", "NV12", "NV12", "NV12", 4, pci_id="0x20B010DE"
    ),
    "h100": GpuModel(
        "NVIDIA-H100-80GB-HBM3", 81559, "hopper", "NV18", "NV18", "NV18", 4, pci_id="0x233010DE"
    ),
    "h800": GpuModel("NVIDIA-H800", 81559, "hopper", "NV8", "NV8", "NV8", 4, pci_id="0x232410DE"),
    "l40s": GpuModel("NVIDIA-L40S", 46068, "ada-lovelace", "PIX", "PHB", "SYS", 1, pci_id="0x26B910DE"),
    "ascend910b": GpuModel("Ascend910B", 65536, "ascend", "HCCS", "HCCS", "HCCS", 2, "huawei.com/Ascend910"),
}


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    uuid: str
    numa: int
    switch: str
    bus_id: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """The accelerators of one node. links: code between each two devices, "X" on the diagonal."""

    model: GpuModel
    devices: tuple[Device, ...]
    links: tuple[tuple[str, ...], ...]
    nics: tuple[tuple[str, int], ...]

    @property
    def uuids(self) -> list[str]:
        return [device.uuid for device in self.devices]


@lru_cache(maxsize=8192)
def build_hardware(node: str, model: GpuModel, count: int) -> Hardware:
    devices = tuple(_make_device(node, model, index, count) for index in range(count))
    links = tuple(tuple(_link(model, one, other) for other in devices) for one in devices)
    nics = tuple((f"mlx5_{n}", n * 2 // model.nics) for n in range(model.nics))
    return Hardware(model=model, devices=devices, links=links, nics=nics)


def hardware_of(node: Json) -> Hardware | None:
    """From the node's annotation `sim.gpu.internal/hardware` ("MODEL:COUNT"), else from its labels
    and capacity; None for a node without accelerators, or whose claims no machine can have."""
    try:
        return _read_hardware(node)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("the GPUs of node %s are not simulated: %r", node["metadata"]["name"], error)
        return None


def _read_hardware(node: Json) -> Hardware | None:
    meta = node["metadata"]
    text = (meta.get("annotations") or {}).get(HARDWARE_ANNOTATION, "")
    if text == "none":
        return None  # others hand out what it has, and say so in annotations of their own
    if text:
        name, _, count = text.partition(":")
        model = MODELS[name]
        if (meta.get("annotations") or {}).get(LINKS_ANNOTATION) == "pcie":
            model = replace(model, near="PIX", switch="PHB", far="SYS")
        return _build_if_possible(meta["name"], model, count or "8")
    labels = meta.get("labels") or {}
    known = (meta.get("annotations") or {}).get(MATRIX_ANNOTATION, "")
    if known.lstrip().startswith("{"):
        return _from_matrix(json.loads(known), _model_of(node))
    if labels.get("nvidia.com/gpu.replicas", "1") not in ("0", "1"):
        # Shared devices: several holders each, which this device plugin does not hand out.
        return None
    capacity = (node.get("status") or {}).get("capacity") or {}
    if "nvidia.com/gpu" in capacity:
        return _build_if_possible(meta["name"], _nvidia_model(labels), capacity["nvidia.com/gpu"])
    if "huawei.com/Ascend910" in capacity:
        model = MODELS["ascend910b"]
        return _build_if_possible(meta["name"], model, capacity["huawei.com/Ascend910"])
    return None


def _build_if_possible(node: str, model: GpuModel, count: str) -> Hardware | None:
    """None for no devices. So many that no machine has them stay numbers of the API, without devices."""
    wanted = parse_quantity(str(count), model.resource)
    if wanted > MOST_DEVICES:
        raise ValueError(f"{wanted} devices, of at most {MOST_DEVICES}")
    return build_hardware(node, model, wanted) if wanted else None


def labels_for(node: str, hardware: Hardware | None) -> dict[str, str]:
    """What the kubelet and another vendor's plugin write. NVIDIA's are discovered (mig/features)."""
    labels = {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if hardware is not None and not hardware.model.is_nvidia:
        labels |= {
            "kubernetes.io/arch": "arm64",
            "accelerator": "huawei-Ascend910",
            "host-arch": "huawei-arm",
            "node.kubernetes.io/npu.chip.name": "910B3",
        }
    return labels


def unhealthy_indexes(node: Json) -> frozenset[int]:
    return indexes_of((node["metadata"].get("annotations") or {}).get(UNHEALTHY_ANNOTATION, ""))


def indexes_of(text: str) -> frozenset[int]:
    """ "0,3": nonsense counts as absent."""
    return frozenset(int(part) for part in text.split(",") if part.strip().isdigit())


def matrix_of(
    hardware: Hardware, unhealthy: frozenset[int], observed_at: str = "", mig: Json | None = None
) -> Json:
    """The value of the annotation `topology.gpu.internal/matrix`. mig: instances by GPU."""
    return {
        "version": 1,
        "observed_at": observed_at or to_text(now()),
        "source": "nvml" if hardware.model.is_nvidia else "hccn",
        "gpus": [
            {
                "index": device.index,
                "uuid": device.uuid,
                "numa": device.numa,
                "pcie_switch": device.switch,
                "bus_id": device.bus_id,
                "healthy": device.index not in unhealthy,
            }
            for device in hardware.devices
        ],
        "links": [list(row) for row in hardware.links],
        "nics": [{"name": name, "numa": numa} for name, numa in hardware.nics],
        "nic_links": [
            [_nic_link(device, position, numa) for position, (_, numa) in enumerate(hardware.nics)]
            for device in hardware.devices
        ],
        "mig": mig or {},
    }


def _make_device(node: str, model: GpuModel, index: int, count: int) -> Device:
    digest = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    prefix = "GPU" if model.is_nvidia else "NPU"
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return Device(
        index=index,
        uuid=f"{prefix}-{'-'.join(parts)}",
        numa=index * 2 // count if count > 1 else 0,
        switch=f"sw{index // 2}",
        bus_id=f"00000000:{0x10 + index * 0x11:02X}:00.0",
    )


def _link(model: GpuModel, one: Device, other: Device) -> str:
    if one.index == other.index:
        return "X"
    if one.switch == other.switch:
        return model.near
    return model.switch if one.numa == other.numa else model.far


def _nic_link(device: Device, position: int, numa: int) -> str:
    if device.switch == f"sw{position}":
        return "PIX"
    return "NODE" if device.numa == numa else "SYS"


def _model_of(node: Json) -> GpuModel:
    capacity = (node.get("status") or {}).get("capacity") or {}
    if "huawei.com/Ascend910" in capacity:
        return MODELS["ascend910b"]
    return _nvidia_model(node["metadata"].get("labels") or {})


def _from_matrix(matrix: Json, model: GpuModel) -> Hardware:
    devices = tuple(
        Device(
            index=position,
            uuid=each["uuid"],
            numa=each.get("numa") or 0,
            switch=str(each.get("pcie_switch") or f"sw{position // 2}"),
            bus_id=each.get("bus_id") or "",
        )
        for position, each in enumerate(matrix["gpus"])
    )
    links = tuple(tuple(row) for row in matrix["links"])
    nics = tuple((each["name"], each.get("numa") or 0) for each in matrix.get("nics") or [])
    return Hardware(model=model, devices=devices, links=links, nics=nics)


def _nvidia_model(labels: dict[str, str]) -> GpuModel:
    product = labels.get("nvidia.com/gpu.product", "")
    for model in MODELS.values():
        if model.product == product:
            return model
    memory = int(labels.get("nvidia.com/gpu.memory", 0) or 0)
    # An unknown model gets the weakest links, so that nothing is promised that it may not have.
    return GpuModel(product or "GPU", memory, labels.get("nvidia.com/gpu.family", ""), "PHB", "PHB", "SYS")
