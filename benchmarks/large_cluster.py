"""A large cluster as the API server would list it: seeded, mixed, fragmented, with something waiting.

Objects are API JSON, so that everything from the watch onwards can be measured on them. Four of five
nodes have eight GPUs of one of four models, with topology and holders as a node agent writes them. GPU
pods are placed at random among the nodes that take them, which leaves the scattered free GPUs that this
product is about. Not in here: what is measured on it (ten_thousand).
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field
from typing import Any

from apps.kube.gateway import (
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Kind,
)

Json = dict[str, Any]
NOW = "2026-01-01T12:00:00Z"
PER_NODE = 8
MODELS = (
    # product, memory, links inside, share of the nodes
    ("NVIDIA-A100-SXM4-80GB", 81920, "NV12", 0.35),
    ("NVIDIA-H100-80GB-HBM3", 81559, "NV18", 0.2),
    ("NVIDIA-L40S", 46068, "PHB", 0.15),
    ("NVIDIA-A100-SXM4-40GB", 40960, "NV12", 0.1),
    ("", 0, "", 0.2),
)
SIZES = ((1, 0.5), (2, 0.22), (4, 0.16), (8, 0.12))
NAMESPACES_OF_TEAMS = tuple(f"team-{letter}" for letter in "abcdefghij")
LOAD = 0.85
GANG, GANG_MEMBERS = "team-a/training", 8


@dataclass(slots=True)
class _Machine:
    name: str
    model: str
    uuids: list[str]
    cpu: int
    memory_gib: int
    pods: int = 0
    holders: dict[str, list[Json]] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return len(self.uuids) - len(self.holders)


class LargeCluster:
    """objects: by kind, as `ClusterWatch.objects` would give them."""

    def __init__(self, *, nodes: int, pods: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.objects: dict[Kind, list[Json]] = {
            kind: []
            for kind in (
                NODES, PODS, NAMESPACES, REPLICASETS, DEPLOYMENTS, STATEFULSETS, DAEMONSETS,
                JOBS, BUDGETS, PRIORITY_CLASSES, POD_GROUPS, VOLUMES, CLAIMS,
            )
        }  # fmt: skip
        self.revision = 1000
        self.machines = [self._machine(at) for at in range(nodes)]
        self.taking = {model: [one for one in self.machines if one.model == model] for model, *_ in MODELS}
        for name in (*NAMESPACES_OF_TEAMS, "kube-system"):
            self.objects[NAMESPACES].append({"metadata": self._meta(name, "")})
        self._add_daemons()
        self._leave_none_free()
        self._fill_gpus(pods)
        self._add_cpu_pods(pods)
        self._add_waiting()
        for machine in self.machines:
            self.objects[NODES].append(self._node(machine))

    def _machine(self, at: int) -> _Machine:
        draw, model, total = self.rng.random(), "", 0.0
        for product, _, _, share in MODELS:
            total += share
            if draw < total:
                model = product
                break
        name = f"node-{at:05}"
        uuids = [f"GPU-{_uid(f'{name}/{index}')}" for index in range(PER_NODE if model else 0)]
        return _Machine(name, model, uuids, 128 if model else 64, 1024 if model else 256)

    def _add_daemons(self) -> None:
        owner = self._owner("DaemonSet", "kube-system", "node-agent", len(self.machines))
        for machine in self.machines:
            self._put(f"node-agent-{machine.name}", "kube-system", owner, machine, 0, 200, 1)

    def _leave_none_free(self) -> None:
        """One small pod on each GPU node, so that what wants whole nodes has to wait."""
        for machine in self.machines:
            if machine.model:
                name = f"first-{machine.name}"
                owner = self._owner("Job", NAMESPACES_OF_TEAMS[0], name, 1)
                self._put(f"{name}-0", NAMESPACES_OF_TEAMS[0], owner, machine, 1, 1000, 8)

    def _fill_gpus(self, most: int) -> None:
        """Random sizes on random nodes until the load is reached."""
        for model, _, _, share in MODELS:
            if not model or not share:
                continue
            left = int((LOAD * PER_NODE - 1) * len(self.taking[model]))
            while left > 0 and len(self.objects[PODS]) < most:
                left -= self._add_workload(model, left)

    def _add_workload(self, model: str, left: int) -> int:
        """One Deployment or Job of pods of one size; how many GPUs it took."""
        size = self.rng.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
        replicas = self.rng.choice((1, 1, 2, 4, 8, 12)) if size < PER_NODE else 1
        kind = "Job" if self.rng.random() < 0.4 else "ReplicaSet"
        namespace = self.rng.choice(NAMESPACES_OF_TEAMS)
        name = f"work-{len(self.objects[REPLICASETS]) + len(self.objects[JOBS]):06}"
        selector = {"nvidia.com/gpu.product": model} if self.rng.random() < 0.7 else {}
        placed: list[Json] = []
        owner = self._owner(kind, namespace, name, 0)
        for number in range(min(replicas, max(left // size, 1))):
            machine = self._choose(model, size)
            if machine is not None:
                pod = self._put(f"{name}-{number}", namespace, owner, machine, size, 1000 * size, 8 * size)
                pod["spec"]["nodeSelector"] = selector
                placed.append(pod)
        self._set_replicas(kind, len(placed))
        if kind == "ReplicaSet" and len(placed) > 1:
            self._add_budget(namespace, name, len(placed))
        return size * len(placed) or size

    def _choose(self, model: str, size: int) -> _Machine | None:
        machines = self.taking[model]
        for _ in range(60):
            machine = self.rng.choice(machines)
            if machine.free >= size:
                return machine
        return None

    def _add_cpu_pods(self, most: int) -> None:
        number = 0
        waiting = 200 + GANG_MEMBERS
        while len(self.objects[PODS]) < most - waiting:
            namespace = self.rng.choice(NAMESPACES_OF_TEAMS)
            replicas = self.rng.choice((2, 3, 5, 10))
            name = f"service-{number:06}"
            owner = self._owner("ReplicaSet", namespace, name, replicas)
            for replica in range(replicas):
                machine = self.rng.choice(self.machines)
                if machine.pods < 60:
                    self._put(f"{name}-{replica}", namespace, owner, machine, 0, 500, 1)
            number += 1

    def _add_waiting(self) -> None:
        namespace, name = GANG.split("/")
        self.objects[POD_GROUPS].append(
            {"metadata": self._meta(name, namespace), "spec": {"minMember": GANG_MEMBERS}}
        )
        owner = self._owner("Job", namespace, name, GANG_MEMBERS)
        for member in range(GANG_MEMBERS):
            pod = self._put(f"{name}-{member}", namespace, owner, None, PER_NODE, 32000, 256)
            pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = name
            pod["metadata"]["annotations"]["defrag.gpu.internal/link"] = "nvlink"
            pod["spec"]["priority"] = 1000
        for number in range(200):
            namespace, name = self.rng.choice(NAMESPACES_OF_TEAMS), f"queued-{number:04}"
            size = self.rng.choice((4, 8, 8))
            owner = self._owner("Job", namespace, name, 1)
            self._put(f"{name}-0", namespace, owner, None, size, 1000 * size, 8 * size)

    def _put(
        self, name: str, namespace: str, owner: Json, machine: _Machine | None, gpus: int, cpu: int, gib: int
    ) -> Json:
        meta = self._meta(name, namespace) | {
            "labels": {"app": owner["name"], "pod-template-hash": "5d4f8"},
            "annotations": {},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        requests = {"cpu": f"{cpu}m", "memory": f"{gib}Gi"}
        if gpus:
            requests["nvidia.com/gpu"] = str(gpus)
        pod: Json = {
            "metadata": meta,
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/work:1",
                        "resources": {
                            "requests": requests,
                            "limits": {key: requests[key] for key in requests},
                        },
                        "env": [{"name": "MODE", "value": "batch"}],
                        "terminationMessagePolicy": "File",
                    }
                ],
                "restartPolicy": "Always",
                "priority": 0,
                "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30,
                "tolerations": [
                    {
                        "key": f"node.kubernetes.io/{what}",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    }
                    for what in ("not-ready", "unreachable")
                ],
            },
            "status": {"phase": "Pending", "conditions": []},
        }
        self.objects[PODS].append(pod)
        if machine is not None:
            pod["spec"]["nodeName"] = machine.name
            pod["status"] = {
                "phase": "Running",
                "startTime": NOW,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": NOW, "lastProbeTime": None}
                    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
                ],
            }
            machine.pods += 1
            free = [uuid for uuid in machine.uuids if uuid not in machine.holders]
            for uuid in free[:gpus]:
                holder = {"namespace": namespace, "pod": name, "uid": meta["uid"], "container": "main"}
                machine.holders[uuid] = [holder]
        return pod

    def _owner(self, kind: str, namespace: str, name: str, replicas: int) -> Json:
        meta = self._meta(name, namespace)
        where = {"Job": JOBS, "ReplicaSet": REPLICASETS, "DaemonSet": DAEMONSETS}[kind]
        spec: Json = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
        status: Json = {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1}
        if kind == "Job":
            spec, status = (
                {"parallelism": replicas, "completions": replicas, "backoffLimit": 6},
                {"active": replicas},
            )
        if kind == "ReplicaSet":
            above = self._meta(name, namespace, uid=_uid(f"Deployment/{namespace}/{name}"))
            self.objects[DEPLOYMENTS].append(
                {"metadata": above | {"generation": 1}, "spec": spec, "status": status}
            )
            reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": above["uid"]}
            meta = meta | {"name": f"{name}-5d4f8", "ownerReferences": [{**reference, "controller": True}]}
        self.objects[where].append({"metadata": meta | {"generation": 1}, "spec": spec, "status": status})
        group = "batch/v1" if kind == "Job" else "apps/v1"
        return {"apiVersion": group, "kind": kind, "name": meta["name"], "uid": meta["uid"]}

    def _set_replicas(self, kind: str, replicas: int) -> None:
        """Of the owner made last: as many as found a place."""
        if kind == "Job":
            newest = self.objects[JOBS][-1]
            newest["spec"] |= {"parallelism": replicas, "completions": replicas}
            newest["status"]["active"] = replicas
            return
        for newest in (self.objects[REPLICASETS][-1], self.objects[DEPLOYMENTS][-1]):
            newest["spec"]["replicas"] = replicas
            newest["status"] |= {"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas}
            newest["status"]["availableReplicas"] = replicas

    def _add_budget(self, namespace: str, name: str, replicas: int) -> None:
        self.objects[BUDGETS].append(
            {
                "metadata": self._meta(name, namespace) | {"generation": 1},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": f"{name}-5d4f8"}}},
                "status": {
                    "disruptionsAllowed": 1,
                    "currentHealthy": replicas,
                    "desiredHealthy": replicas - 1,
                    "expectedPods": replicas,
                    "observedGeneration": 1,
                },
            }
        )

    def _node(self, machine: _Machine) -> Json:
        number = int(machine.name[-5:])
        amounts = {"cpu": str(machine.cpu), "memory": f"{machine.memory_gib}Gi", "pods": "110"}
        amounts["ephemeral-storage"] = "3500Gi"
        labels = {
            "kubernetes.io/hostname": machine.name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "topology.kubernetes.io/rack": f"rack-{number // 16:04}",
            "defrag.gpu.internal/pool": (machine.model or "cpu").lower().replace("nvidia-", ""),
        }
        annotations = {}
        if machine.model:
            _, memory, link, _ = next(entry for entry in MODELS if entry[0] == machine.model)
            amounts["nvidia.com/gpu"] = str(PER_NODE)
            labels |= {
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": machine.model,
                "nvidia.com/gpu.count": str(PER_NODE),
                "nvidia.com/gpu.memory": str(memory),
                "nvidia.com/gpu.replicas": "1",
                "nvidia.com/mig.strategy": "none",
            }
            annotations = {
                "topology.gpu.internal/matrix": json.dumps(_matrix(machine, link)),
                "topology.gpu.internal/holders": json.dumps(
                    {
                        "version": 1,
                        "observed_at": NOW,
                        "devices": {uuid: machine.holders.get(uuid, []) for uuid in machine.uuids},
                    }
                ),
            }
        return {
            "metadata": self._meta(machine.name, "") | {"labels": labels, "annotations": annotations},
            "spec": {"taints": []},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": NOW, "lastHeartbeatTime": NOW}
                ],
            },
        }

    def _meta(self, name: str, namespace: str, uid: str = "") -> Json:
        self.revision += 1
        meta = {
            "name": name,
            "uid": uid or _uid(f"{namespace}/{name}/{self.revision}"),
            "resourceVersion": str(self.revision),
            "creationTimestamp": NOW,
        }
        return meta | {"namespace": namespace} if namespace else meta


def _matrix(machine: _Machine, link: str) -> Json:
    return {
        "version": 1,
        "observed_at": NOW,
        "source": "nvml",
        "gpus": [
            {
                "index": index,
                "uuid": uuid,
                "numa": index * 2 // PER_NODE,
                "pcie_switch": f"sw{index // 2}",
                "bus_id": f"00000000:{0x10 + index * 0x11:02X}:00.0",
                "healthy": True,
            }
            for index, uuid in enumerate(machine.uuids)
        ],
        "links": [["X" if one == two else link for two in range(PER_NODE)] for one in range(PER_NODE)],
        "nics": [],
        "nic_links": [],
        "mig": {},
    }


def _uid(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
