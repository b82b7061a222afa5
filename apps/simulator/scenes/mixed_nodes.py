"""The nodes of the mixed estate whose devices other vendors' plugins and other schedulers hand out.

Labels, annotations and resources as those programs write them. The simulated kubelet runs their pods and
leaves the devices to whoever says so in the annotations. Not here: who runs on them (mixed_pods).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = dict[str, Any]
Notes = Callable[[datetime], dict[str, str]]

MATRIX = "topology.gpu.internal/matrix"
CARDS = "feature.node.kubernetes.io/pci-10de.present"
PCIE_TEXT = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tPIX\tSYS\tSYS\tPHB\t0-31\t0\t\tN/A
GPU1\tPIX\t X \tSYS\tSYS\tPHB\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tPIX\tSYS\t32-63\t1\t\tN/A
GPU3\tSYS\tSYS\tPIX\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPHB\tPHB\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: mlx5_0
"""


@dataclass(frozen=True)
class Machine:
    """resources: capacity. sick: how many fewer of a resource are offered. notes: annotations at a moment."""

    name: str
    pool: str
    resources: Mapping[str, int | str]
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: Notes = lambda _moment: {}
    sick: Mapping[str, int] = field(default_factory=dict)


def uuid_of(node: str, index: int, prefix: str = "GPU") -> str:
    mark = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"{prefix}-{'-'.join((mark[:8], mark[8:12], mark[12:16], mark[16:20], mark[20:32]))}"


def _discovered(product: str, count: int, memory_mib: int, **more: str) -> dict[str, str]:
    """As NVIDIA's feature discovery labels whole GPUs."""
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.operands": "false",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.memory": str(memory_mib),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
    } | {f"nvidia.com/gpu.{key}": value for key, value in more.items()}


def _register(node: str, cards: int, prefix: str = "GPU", **facts: Any) -> str:
    """HAMi's register of a node, in its newer form. facts: of each device; numa is told by halves."""
    return json.dumps(
        [
            {"id": uuid_of(node, at, prefix), "index": at, "numa": at * 2 // cards, "health": True, **facts}
            for at in range(cards)
        ]
    )


def _records(node: str, count: int, prefix: str, *facts: str) -> str:
    """The same in the older form, fields between commas, a colon behind each device."""
    return "".join(f"{','.join((uuid_of(node, at, prefix), *facts))}:" for at in range(count))


def _hami_nvidia(moment: datetime) -> dict[str, str]:
    facts: Json = {
        "count": 10,
        "devmem": 40960,
        "devcore": 100,
        "type": "NVIDIA-A100-PCIE-40GB",
        "mode": "hami-core",
    }
    return {
        "hami.io/node-handshake": f"Reported_{moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-nvidia-register": _register("hami-a100", 4, **facts),
        "hami.io/node-nvidia-score": json.dumps(
            [
                {
                    "uuid": uuid_of("hami-a100", one),
                    "score": {
                        uuid_of("hami-a100", other): 100 if one // 2 == other // 2 else 10
                        for other in range(4)
                        if other != one
                    },
                }
                for one in range(4)
            ]
        ),
    }


def _hami_dead(moment: datetime) -> dict[str, str]:
    facts: Json = {
        "count": 10,
        "devmem": 24576,
        "devcore": 100,
        "type": "NVIDIA-NVIDIA A10",
        "mode": "hami-core",
    }
    return {
        "hami.io/node-handshake": f"Deleted_{moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-nvidia-register": _register("hami-dead", 2, **facts),
    }


def _hami_ascend(moment: datetime) -> dict[str, str]:
    facts: Json = {"count": 4, "devmem": 32768, "devcore": 20, "type": "Ascend910B4"}
    return {
        "hami.io/node-handshake-Ascend910B4": f"Reported_{moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-register-Ascend910B4": _register("hami-ascend", 8, "Ascend910B4", **facts),
    }


def _volcano(moment: datetime) -> dict[str, str]:
    return {
        "volcano.sh/node-vgpu-handshake": f"Reported {moment:%Y-%m-%d %H:%M:%S}",
        "volcano.sh/node-vgpu-register": _records(
            "volcano-v100", 2, "GPU", "10", "32768", "100", "NVIDIA-Tesla V100-PCIE-32GB", "0", "true"
        ),
    }


def _hygon(moment: datetime) -> dict[str, str]:
    return {
        "hami.io/node-handshake-dcu": f"Reported {moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-dcu-register": _records(
            "hygon-k100", 4, "DCU", "4", "65536", "60", "DCU-K100_AI", "0", "true"
        ),
    }


def _two_vendors(moment: datetime) -> dict[str, str]:
    nvidia = ("10", "16384", "100", "NVIDIA-Tesla T4", "0", "true")
    return {
        "hami.io/node-handshake-nvidia": f"Reported {moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-handshake-mlu": f"Reported {moment:%Y-%m-%d %H:%M:%S}",
        "hami.io/node-nvidia-register": _records("two-vendors", 2, "GPU", *nvidia),
        "hami.io/node-mlu-register": _records(
            "two-vendors", 2, "MLU", "10", "23308", "0", "MLU-MLU370-X4", "0", "true"
        ),
    }


def _plain_text(_moment: datetime) -> dict[str, str]:
    return {MATRIX: PCIE_TEXT}


MACHINES = (
    Machine(
        "pcie-text",
        "inference",
        {"nvidia.com/gpu": 4},
        _discovered("NVIDIA-L40", 4, 46068),
        _plain_text,
    ),
    Machine(
        "no-topology",
        "inference",
        {"nvidia.com/gpu": 2},
        _discovered("NVIDIA-A10", 2, 23028),
        sick={"nvidia.com/gpu": 1},
    ),
    Machine(
        "gke-shared",
        "inference",
        {"nvidia.com/gpu": 8},
        {
            "cloud.google.com/gke-accelerator": "nvidia-l4",
            "cloud.google.com/gke-accelerator-count": "2",
            "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
            "cloud.google.com/gke-max-shared-clients-per-gpu": "4",
        },
    ),
    Machine("hami-a100", "shares", {"nvidia.com/gpu": 40}, {"gpu": "on"}, _hami_nvidia),
    Machine("hami-dead", "shares", {"nvidia.com/gpu": 20}, {"gpu": "on"}, _hami_dead),
    Machine(
        "hami-ascend",
        "npu",
        {"huawei.com/Ascend910B4": 32},
        {"accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910B4"},
        _hami_ascend,
    ),
    Machine(
        "volcano-v100",
        "shares",
        {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 65536, "volcano.sh/vgpu-cores": 200},
        notes=_volcano,
    ),
    Machine(
        "koordinator-h800",
        "shares",
        {
            "koordinator.sh/gpu": 800,
            "koordinator.sh/gpu-core": 800,
            "koordinator.sh/gpu-memory-ratio": 800,
            "koordinator.sh/gpu-memory": "640Gi",
            "nvidia.com/gpu": 8,
        },
        {"node.koordinator.sh/gpu-model": "NVIDIA-H800", "node.koordinator.sh/gpu-vendor": "nvidia"},
    ),
    Machine("kai-a100", "shares", {"nvidia.com/gpu": 4}, _discovered("NVIDIA-A100-PCIE-40GB", 4, 40960)),
    Machine(
        "gpushare-t4",
        "shares",
        {"aliyun.com/gpu-mem": 30, "aliyun.com/gpu-count": 2},
        {"gpushare": "true"},
    ),
    Machine(
        "milli-v100",
        "shares",
        {"alibabacloud.com/gpu-count": 2, "alibabacloud.com/gpu-milli": "2k"},
        {"alibabacloud.com/gpu-card-model": "V100"},
    ),
    Machine(
        "amd-mi300x",
        "amd",
        {"amd.com/gpu": 8},
        {
            "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
            "amd.com/gpu.vram": "192G",
            "amd.com/gpu.family": "AI",
            "beta.amd.com/gpu.vram.192G": "8",
            "feature.node.kubernetes.io/amd-gpu": "true",
        },
    ),
    Machine(
        "intel-shared",
        "intel",
        {"gpu.intel.com/i915": 20, "gpu.intel.com/millicores": "2k"},
        {
            "gpu.intel.com/device-id.0380-56c0.present": "true",
            "gpu.intel.com/device-id.0380-56c0.count": "2",
            "gpu.intel.com/family": "Flex_Series",
            "intel.feature.node.kubernetes.io/gpu": "true",
        },
    ),
    Machine("hygon-k100", "shares", {"hygon.com/dcunum": 16}, {"dcu": "on"}, _hygon),
    Machine(
        "metax-c500",
        "metax",
        {"metax-tech.com/gpu": 8},
        {"metax-tech.com/gpu.product": "MXC500", "metax-tech.com/gpu.vfm": "true"},
    ),
    Machine("acme-npu", "trial", {"acme.example/npu": 4}, {"acme.example/npu.model": "Bolt-2"}),
    Machine("two-vendors", "trial", {"nvidia.com/gpu": 20, "cambricon.com/vmlu": 20}, notes=_two_vendors),
    Machine("dra-h100", "claims", {}, {CARDS: "true"}),
)
