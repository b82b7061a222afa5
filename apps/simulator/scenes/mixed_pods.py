"""Who runs in the mixed estate, with what each scheduler wrote on the pods it placed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.scenes.mixed_nodes import uuid_of

Json = dict[str, Any]
Amounts = Mapping[str, int | str]

HAMI = "hami-scheduler"


@dataclass(frozen=True)
class Group:
    """Pods of one owner on one node. given: what the scheduler wrote on each of them, one entry a pod.
    inits, sidecars: limits of further containers."""

    name: str
    node: str
    limits: Amounts
    given: tuple[Mapping[str, str], ...] = ({},)
    kind: str = "Deployment"
    namespace: str = "vendors"
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    inits: tuple[Amounts, ...] = ()
    sidecars: tuple[Amounts, ...] = ()


def _hami(family: str, node: str, *devices: str) -> dict[str, str]:
    """devices: "UUID,type,MiB,cores:" for each container, init containers first."""
    return {
        f"hami.io/{family}-devices-allocated": "".join(f"{one};" for one in devices),
        f"hami.io/{family}-devices-to-allocate": ";" * len(devices),
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": "1767268800",
        "hami.io/bind-phase": "success",
    }


def _share(node: str, index: int, *, mib: int, cores: int, kind: str = "NVIDIA", prefix: str = "GPU") -> str:
    return f"{uuid_of(node, index, prefix)},{kind},{mib},{cores}:"


def _koordinator(minor: int, percent: int) -> dict[str, str]:
    resources = {"koordinator.sh/gpu-core": str(percent), "koordinator.sh/gpu-memory-ratio": str(percent)}
    resources["koordinator.sh/gpu-memory"] = f"{80 * percent // 100}Gi"
    return {
        "scheduling.koordinator.sh/device-allocated": json.dumps(
            {"gpu": [{"minor": minor, "resources": resources}]}
        )
    }


def _gpushare(index: int, units: int) -> dict[str, str]:
    prefix = "ALIYUN_COM_GPU_MEM_"
    told = {"IDX": index, "POD": units, "DEV": 15, "ASSIGNED": "true", "ASSUME_TIME": 1767268800000000000}
    return {f"{prefix}{key}": str(value) for key, value in told.items()}


KAI_GROUP = "runai-gpu-group"
GROUPS = (
    Group("llm-server", "pcie-text", {"nvidia.com/gpu": 2}),
    Group("ocr", "no-topology", {"nvidia.com/gpu": 1}),
    Group("captions", "gke-shared", {"nvidia.com/gpu": 1}, ({},) * 5),
    Group(
        "chat",
        "hami-a100",
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000, "nvidia.com/gpucores": 30},
        tuple(_hami("vgpu", "hami-a100", _share("hami-a100", at, mib=8000, cores=30)) for at in (0, 0, 1)),
        scheduler=HAMI,
    ),
    Group(
        "prepared",
        "hami-a100",
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10000},
        (_hami("vgpu", "hami-a100", "", _share("hami-a100", 2, mib=10000, cores=0)),),
        scheduler=HAMI,
        inits=({},),
    ),
    Group(
        "whole-card",
        "hami-a100",
        {"nvidia.com/gpu": 1},
        (_hami("vgpu", "hami-a100", _share("hami-a100", 3, mib=40960, cores=100)),),
        scheduler=HAMI,
    ),
    Group(
        "orphan",
        "hami-dead",
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000},
        (_hami("vgpu", "hami-dead", _share("hami-dead", 0, mib=4000, cores=0)),),
        scheduler=HAMI,
    ),
    Group(
        "npu-serve",
        "hami-ascend",
        {"huawei.com/Ascend910B4": 1, "huawei.com/Ascend910B4-memory": 8192},
        tuple(
            _hami(
                "Ascend910B4",
                "hami-ascend",
                _share("hami-ascend", at, mib=8192, cores=0, kind="Ascend910B4", prefix="Ascend910B4"),
            )
            for at in (0, 0, 5)
        ),
        scheduler=HAMI,
    ),
    Group(
        "volcano-infer",
        "volcano-v100",
        {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 10000, "volcano.sh/vgpu-cores": 50},
        tuple(
            {
                "volcano.sh/vgpu-ids-new": f"{uuid_of('volcano-v100', at)},NVIDIA,10000,50:;",
                "volcano.sh/vgpu-node": "volcano-v100",
                "scheduling.k8s.io/group-name": "podgroup-volcano-infer",
            }
            for at in (0, 1)
        ),
        scheduler="volcano",
    ),
    Group(
        "koord-half",
        "koordinator-h800",
        {
            "koordinator.sh/gpu.shared": 1,
            "koordinator.sh/gpu-core": 50,
            "koordinator.sh/gpu-memory-ratio": 50,
        },
        (_koordinator(0, 50), _koordinator(0, 50), _koordinator(3, 50)),
        scheduler="koord-scheduler",
    ),
    Group(
        "notebooks",
        "kai-a100",
        {},
        ({}, {}),
        kind="StatefulSet",
        labels={"kai.scheduler/queue": "research", KAI_GROUP: "g1"},
        notes={"gpu-fraction": "0.5", "pod-group-name": "pg-notebooks"},
        scheduler="kai-scheduler",
    ),
    Group(
        "gpu-reservation-kai-a100",
        "kai-a100",
        {"nvidia.com/gpu": 1},
        ({"run.ai/reserve_for_gpu_index": "0"},),
        namespace="kai-resource-reservation",
        labels={KAI_GROUP: "g1", "app.runai.resource.reservation": "runai-reservation-gpu"},
    ),
    Group(
        "trainer",
        "kai-a100",
        {"nvidia.com/gpu": 2},
        kind="Job",
        labels={"kai.scheduler/queue": "research"},
        scheduler="kai-scheduler",
    ),
    Group(
        "gpushare",
        "gpushare-t4",
        {"aliyun.com/gpu-mem": 5},
        (_gpushare(0, 5), _gpushare(0, 5), _gpushare(1, 5)),
    ),
    Group(
        "milli",
        "milli-v100",
        {},
        ({"alibabacloud.com/gpu-index": "0"}, {"alibabacloud.com/gpu-index": "1"}),
        notes={"alibabacloud.com/gpu-milli": "460", "alibabacloud.com/gpu-count": "1"},
    ),
    Group("rocm-train", "amd-mi300x", {"amd.com/gpu": 4}, kind="Job"),
    Group("transcode", "intel-shared", {"gpu.intel.com/i915": 1}, ({},) * 6),
    Group(
        "dcu-infer",
        "hygon-k100",
        {"hygon.com/dcunum": 1, "hygon.com/dcumem": 16384, "hygon.com/dcucores": 15},
        tuple(
            _hami(
                "dcu", "hygon-k100", _share("hygon-k100", at, mib=16384, cores=15, kind="DCU", prefix="DCU")
            )
            for at in (0, 1)
        ),
        scheduler=HAMI,
    ),
    Group("metax-infer", "metax-c500", {"metax-tech.com/gpu": 3}),
    Group("bolt-trial", "acme-npu", {"acme.example/npu": 1}, ({}, {})),
    Group(
        "on-nvidia",
        "two-vendors",
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6000},
        (_hami("vgpu", "two-vendors", _share("two-vendors", 1, mib=6000, cores=0)),),
        scheduler=HAMI,
    ),
    Group(
        "on-mlu",
        "two-vendors",
        {"cambricon.com/vmlu": 1},
        (
            _hami(
                "mlu", "two-vendors", _share("two-vendors", 0, mib=23308, cores=0, kind="MLU", prefix="MLU")
            ),
        ),
        scheduler=HAMI,
    ),
    Group(
        "with-helpers",
        "nvlink-a100",
        {"nvidia.com/gpu": 1},
        kind="StatefulSet",
        inits=({"nvidia.com/gpu": 2},),
        sidecars=({"nvidia.com/gpu": 1},),
    ),
)
