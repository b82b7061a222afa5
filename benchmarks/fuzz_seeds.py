# ruff: noqa: E501 - the lines are those of the formats
"""Inputs of our own in every format that the readers take: what the fuzz run starts from.

Small, valid, and made of the odd corners of each format, so that a mutation of one byte lands on something
that is read. Not in here: how they are mutated (fuzzing), and what is expected of the readers (fuzz_readers).
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]

MATRIX = {
    "version": 1,
    "observed_at": "2026-01-01T12:00:00Z",
    "source": "nvml",
    "gpus": [
        {
            "index": at,
            "uuid": f"GPU-{at}",
            "numa": at // 2,
            "pcie_switch": f"s{at // 2}",
            "bus_id": f"0{at}:00.0",
        }
        for at in range(4)
    ],
    "links": [["X" if a == b else "NV12" if a // 2 == b // 2 else "SYS" for a in range(4)] for b in range(4)],
    "nics": [{"name": "mlx5_0", "numa": 0}],
    "nic_links": [["PIX"], ["PIX"], ["SYS"], ["SYS"]],
    "mig": {"GPU-0": [{"profile": "3g.40gb", "start": 0, "uuid": "MIG-a"}]},
}
HOLDERS = {
    "version": 1,
    "observed_at": "2026-01-01T12:00:00Z",
    "devices": {"GPU-1": [{"namespace": "a", "pod": "p", "uid": "pod-1", "container": "c", "milli": 500}]},
}
REGISTER = [
    {"id": f"GPU-{at}", "index": at, "count": 10, "devmem": 81920, "devcore": 100, "type": "NVIDIA-A100",
     "numa": at, "mode": "hami-core", "health": at != 1}
    for at in range(2)
]  # fmt: skip


def _node(name: str, resources: Json, labels: Json, annotations: Json | None = None) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name, **labels},
            "annotations": annotations or {},
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T12:00:00Z"},
            ],
        },
    }


def _pod(name: str, node: str, limits: Json, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"pod-{name}",
            "labels": {"app": name},
            "annotations": annotations or {},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": limits}}],
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"pool": "a"},
            **spec,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


NODES = (
    _node(
        "nvlink",
        {"nvidia.com/gpu": "4"},
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "4"},
        {
            "topology.gpu.internal/matrix": json.dumps(MATRIX),
            "topology.gpu.internal/holders": json.dumps(HOLDERS),
        },
    ),
    _node(
        "mig",
        {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1"},
        {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/gpu.count": "1",
            "nvidia.com/mig.config.state": "pending",
            "nvidia.com/mig-1g.10gb.count": "4",
        },
    ),
    _node(
        "shared",
        {"nvidia.com/gpu.shared": "24"},
        {
            "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED",
            "nvidia.com/gpu.replicas": "12",
            "nvidia.com/gpu.count": "2",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        },
    ),
    _node(
        "hami",
        {"nvidia.com/gpu": "20"},
        {},
        {
            "hami.io/node-nvidia-register": json.dumps(REGISTER),
            "hami.io/node-handshake": "Requesting_2026.01.01 12:00:00",
            "hami.io/node-nvidia-score": json.dumps([{"uuid": "GPU-0", "score": {"GPU-1": 100}}]),
        },
    ),
    _node(
        "volcano",
        {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "40960"},
        {},
        {"volcano.sh/node-vgpu-register": "GPU-9,10,40960,100,NVIDIA-A100,0,true,0,hami-core:"},
    ),
    _node("ascend", {"huawei.com/Ascend910": "8"}, {"accelerator": "huawei-Ascend910"}),
    _node("amd", {"amd.com/gpu": "8"}, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}),
    _node("gke", {"nvidia.com/gpu": "8"}, {"cloud.google.com/gke-max-shared-clients-per-gpu": "4"}),
    _node("unknown", {"acme.example/npu": "3"}, {}),
)
PODS = (
    _pod("whole", "nvlink", {"nvidia.com/gpu": "1"}),
    _pod("slice", "mig", {"nvidia.com/mig-1g.10gb": "1"}),
    _pod(
        "share",
        "hami",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"},
        {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,4000,30:;", "hami.io/vgpu-node": "hami"},
    ),
    _pod("kai", "nvlink", {}, {"gpu-fraction": "0.5", "pod-group-name": "g"}),
    _pod("milli", "nvlink", {}, {"alibabacloud.com/gpu-milli": "300"}),
    _pod("gpushare", "nvlink", {"aliyun.com/gpu-mem": "8"}, {"ALIYUN_COM_GPU_MEM_IDX": "0"}),
    _pod(
        "koordinator",
        "nvlink",
        {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
        {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{}}]}'},
    ),
    _pod(
        "claims",
        "nvlink",
        {},
        resourceClaims=[{"name": "gpu", "resourceClaimName": "claim"}],
        affinity={
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h"}]}
        },
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
)
OTHERS: tuple[Json, ...] = (
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "nvlink",
            "pool": {"name": "nvlink", "generation": 2, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"uuid": {"string": "GPU-0"}, "type": {"string": "gpu"}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
            ],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "team", "uid": "claim"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"driver": "gpu.nvidia.com", "pool": "nvlink", "device": "gpu-0", "request": "r"}
                    ]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "claims", "uid": "pod-claims"}],
        },
    },
    {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "nvlink"},
        "spec": {"devices": [{"id": "GPU-0", "minor": 0, "health": True, "type": "gpu",
                              "topology": {"socketID": 0, "nodeID": 0, "pcieID": "0", "busID": "0000:00"}}]},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "team", "uid": "rs"},
        "spec": {"replicas": 3},
        "status": {"replicas": 3},
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "team", "uid": "b"},
        "spec": {"selector": {"matchLabels": {"app": "whole"}}},
        "status": {"disruptionsAllowed": 1},
    },
)  # fmt: skip

DUMPS = (
    {"apiVersion": "v1", "kind": "List", "items": [*NODES[:2], *PODS[:3], *OTHERS]},
    {"apiVersion": "v1", "kind": "List", "items": [*NODES[2:5], *PODS[3:6]]},
    {"apiVersion": "v1", "kind": "List", "items": [*NODES[5:], *PODS[6:], *OTHERS]},
    {"apiVersion": "v1", "kind": "NodeList", "items": [NODES[3]]},
    PODS[7],
)
DESCRIPTION = """Name:               node-a
Roles:              <none>
Labels:             kubernetes.io/hostname=node-a
                    nvidia.com/gpu.product=NVIDIA-A10
Annotations:        hami.io/node-handshake: Reported 2026-01-01 12:00:00
                    hami.io/node-nvidia-register: GPU-1,10,24576,100,NVIDIA-A10,0,true:
CreationTimestamp:  Thu, 01 Jan 2026 12:00:00 +0000
Taints:             nvidia.com/gpu=present:NoSchedule
Unschedulable:      false
Conditions:
  Type     Status  LastHeartbeatTime                 Reason
  Ready    True    Thu, 01 Jan 2026 12:00:00 +0000   KubeletReady
Capacity:
  cpu:             64
  nvidia.com/gpu:  10
Allocatable:
  cpu:             64
  nvidia.com/gpu:  10
"""

TOPOLOGIES = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A\nNIC0\tPXB\tSYS\t X\n\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n"
    "  NIC0: mlx5_0\n",
    "$ nvidia-smi topo -m\n        GPU0    GPU1    GPU2    CPU Affinity\nGPU0     X      PIX     SYS     0-15\n"
    "GPU1    PIX      X      SYS     0-15\nGPU2    SYS     SYS      X      16-31\n",
    "======================== Link Type between two GPUs ========================\n"
    "       GPU0         GPU1         \nGPU0   0            XGMI         \nGPU1   XGMI         0            \n"
    "======================== Numa Nodes ========================\n"
    "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[1]\t\t: (Topology) Numa Node: 1\n",
    "\t   NPU0       NPU1       CPU Affinity\nNPU0       X          HCCS       0-23\nNPU1       HCCS       X          0-23\n",
    "           GPU0    GPU1    CPU Affinity    NUMA Affinity\nGPU0        X       MX      0-63            0\n"
    "GPU1        MX      X       64-127          1\n",
    json.dumps(MATRIX),
    json.dumps({"card0": {"(Topology) Numa Node": "0"}, "card1": {"(Topology) Numa Node": "1"}}),
)
METRICS = (
    "# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).\n# TYPE DCGM_FI_DEV_FB_USED gauge\n"
    'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-0",device="nvidia0",modelName="NVIDIA A100",Hostname="n",'
    'namespace="a",pod="p",container="c"} 1024\n'
    'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-0",device="nvidia0",modelName="NVIDIA A100",Hostname="n"} 80000\n'
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="9"} 2147483632\n'
    'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-0",GPU_I_PROFILE="1g.10gb",GPU_I_ID="9"} 0.5 1767268800000\n',
    json.dumps(
        {
            "status": "success",
            "data": {
                "resultType": "vector",
                "result": [
                    {
                        "metric": {"__name__": "DCGM_FI_DEV_FB_USED", "UUID": "GPU-0", "exported_pod": "p"},
                        "value": [1767268800, "1024"],
                    },
                    {
                        "metric": {"__name__": "DCGM_FI_DEV_FB_FREE", "UUID": "GPU-0", "gpu": "0"},
                        "values": [[1767268800, "1024"], [1767268815, "NaN"]],
                    },
                ],
            },
        }
    ),
    "index, uuid, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n"
    "0, GPU-0, NVIDIA A100, 1024 MiB, 81920 MiB, 37 %\n1, GPU-1, NVIDIA A100, [N/A], 81920 MiB, [N/A]\n",
    '# TYPE vGPUMemoryUsed gauge\nvGPUMemoryUsed{deviceuuid="GPU-0",podname="p",podnamespace="a"} 1.5e+09\n'
    'GPUDeviceMemoryLimit{deviceuuid="GPU-0",nodeid="n",deviceidx="0"} 8.5899345920e+10\n',
    'gpu_used_memory{gpu_id="0",gpu_uuid="AMD-0",hostname="n"} 300\ngpu_total_memory{gpu_id="0"} 196608\n',
)
MIG = (
    "version: v1\nmig-configs:\n  all-disabled:\n    - devices: all\n      mig-enabled: false\n"
    "  mixed:\n    - device-filter: ['0x20B210DE', '0x20F110DE']\n      devices: [0, 1]\n      mig-enabled: true\n"
    '      mig-devices:\n        "1g.10gb": 2\n        "3g.40gb": 1\n    - devices: [2]\n      mig-enabled: true\n'
    "      mig-devices: {0: 1g.10gb, 4: 3g.40gb}\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: default-mig-parted-config\ndata:\n  config.yaml: |\n"
    "    version: v1\n    mig-configs:\n      all-1g.5gb:\n        - devices: all\n          mig-enabled: true\n"
    '          mig-devices:\n            "1g.5gb": 7\n',
    "$ nvidia-smi mig -lgip\n"
    "+-----------------------------------------------------------------------------+\n"
    "| GPU instance profiles:                                                      |\n"
    "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
    "|                              Free/Total   GiB              CE    JPEG  OFA  |\n"
    "|=============================================================================|\n"
    "|   0  MIG 1g.10gb       19     7/7        9.50       No     14     0     0   |\n"
    "|                                                             1     0     0   |\n"
    "+-----------------------------------------------------------------------------+\n",
    "$ nvidia-smi mig -lgipp\nGPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\n"
    "GPU  0 Profile ID  9 Placements: {0,4}:4\n",
    "+-------------------------------------------------------+\n| GPU instances:                                        |\n"
    "| GPU   Name             Profile  Instance   Placement  |\n|                          ID       ID       Start:Size |\n"
    "|=======================================================|\n|   0  MIG 1g.10gb         19        9          0:1     |\n"
    "+-------------------------------------------------------+\n",
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n  MIG 3g.40gb     Device  0: (UUID: MIG-0)\n",
    json.dumps(NODES[1]),
)
TRACES = (
    "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,8,V100\nn2,96000,786432,8,G2\n",
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,node,gpu_index\np1,8000,30517,1,460,n1,0\np2,8000,1,2,1000,n2,0-1\n",
)
