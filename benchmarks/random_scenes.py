"""Random clusters with everything that real pods ask for: the scenes that plans are checked and compared on.

Nodes of several models, racks and zones, with taints, cordons and broken GPUs; pods with whole GPUs, shares
and CPU alone, selectors, affinity, anti-affinity, spread, ports, RDMA, storage, budgets, gangs, priorities,
protections. Built directly as the planner's facts. Not in here: plans and checks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from apps.planner.inventory import (
    DisruptionBudget,
    Gang,
    Gpu,
    Holding,
    LabelSelector,
    LinkClass,
    MigInstance,
    Node,
    NodeTerm,
    Pod,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
    Topology,
    Workload,
)
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.layouts import list_full_layouts
from apps.planner.snapshot import Snapshot

GPU = "nvidia.com/gpu"
RDMA = "rdma/hca"
GIB = 2**30
HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
MODEL = "nvidia.com/gpu.product"
NAMESPACES = ("team", "ml", "web")
NOW = 100_000.0
MIG_MODEL = MODELS["A100-40GB"]
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cluster. load: part of the GPUs that is held. rules: part of the workloads with a rule of
    their own; by_node: only rules that one node answers by itself (no zones, no links). waiting: gangs or
    pods that wait. shares: part of the GPU pods that take a fraction."""

    nodes: int = 8
    gpus: int = 8
    load: float = 0.6
    rules: float = 0.5
    shares: float = 0.15
    waiting: int = 2
    protected: float = 0.1
    cpu_pods: float = 0.5
    models: int = 2
    by_node: bool = False


def draw_scene(draw: random.Random, kind: Kind) -> Snapshot:
    """A cluster of this kind; the same for the same state of `draw`."""
    scene = _Scene(draw, kind)
    scene.add_nodes()
    scene.add_running()
    scene.add_waiting()
    return scene.snapshot()


class _Scene:
    def __init__(self, draw: random.Random, kind: Kind) -> None:
        self.draw, self.kind = draw, kind
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self.budgets: dict[str, DisruptionBudget] = {}
        self.gangs: dict[str, Gang] = {}
        self.left: dict[str, dict[str, int]] = {}
        self.devices: dict[str, list[int]] = {}
        self.holdings: dict[str, list[Holding]] = {}

    def snapshot(self) -> Snapshot:
        nodes = {
            name: replace(node, holdings=tuple(self.holdings[name])) for name, node in self.nodes.items()
        }
        return Snapshot("random", NOW, nodes, self.pods, self.workloads, self.budgets, self.gangs)

    def add_nodes(self) -> None:
        for number in range(self.kind.nodes):
            name = f"n{number:03}"
            self._add_node(name, number)

    def _add_node(self, name: str, number: int) -> None:
        draw, gpus = self.draw, self.kind.gpus
        model = f"model-{draw.randrange(self.kind.models)}"
        healthy = [draw.random() > 0.02 for _ in range(gpus)]
        allocatable = {
            "cpu": draw.choice([64_000, 96_000, 128_000]),
            "memory": draw.choice([512, 1024]) * GIB,
            "ephemeral-storage": draw.choice([200, 1000]) * GIB,
            "pods": draw.choice([12, 110]),
            GPU: sum(healthy),
            RDMA: draw.choice([0, 4, 8]),
        }
        labels = {HOST: name, ZONE: f"z{number % 3}", RACK: f"r{number % 4}", MODEL: model}
        letters = draw.choice(["a" * gpus, "a" * (gpus // 2) + "b" * (gpus - gpus // 2)])
        self.nodes[name] = Node(
            name,
            uid=f"uid-{name}",
            hostname=name,
            labels=labels,
            taints=(Taint("dedicated", "gpu"),) if draw.random() < 0.15 else (),
            unschedulable=draw.random() < 0.03,
            ready=draw.random() > 0.02,
            capacity=allocatable,
            allocatable=allocatable,
            vendor="nvidia",
            model=model,
            gpu_resource=GPU,
            gpus=tuple(Gpu(at, f"GPU-{name}-{at}", 81920, healthy=ok) for at, ok in enumerate(healthy)),
            topology=_links(letters),
            zone=labels[ZONE],
            rack=labels[RACK],
        )
        self.left[name] = dict(allocatable)
        self.devices[name] = [1000 if ok else 0 for ok in healthy]
        self.holdings[name] = []

    def add_running(self) -> None:
        total = sum(node.allocatable[GPU] for node in self.nodes.values())
        held, number = 0.0, 0
        for _ in range(self.kind.nodes * 40):
            if held >= self.kind.load * total:
                break
            held += self._add_workload(f"w{number}")
            number += 1
        for _ in range(round(self.kind.cpu_pods * self.kind.nodes)):
            self._add_cpu_pod(f"c{number}")
            number += 1

    def _add_workload(self, name: str) -> float:
        """Several replicas of one shape, on random nodes that take them; the GPUs they hold."""
        draw = self.draw
        share = draw.random() < self.kind.shares
        gpus = 1 if share else draw.choice([1, 1, 1, 2, 2, 4, 8])
        shape = self._shape(name, gpus, draw.choice([300, 500, 700]) if share else 1000)
        shape |= self._wishes(name)
        held = 0.0
        members = []
        for number in range(draw.choice([1, 1, 2, 3, 4])):
            pod = Pod(uid=f"uid-{name}-{number}", name=f"{name}-{number}", **shape)
            node = self._place(pod)
            if node:
                members.append(node)
                held += gpus * shape["gpu_milli"] / 1000
        if members:
            self._add_owner(name, shape, members)
        return held

    def _shape(self, name: str, gpus: int, milli: int) -> dict[str, Any]:
        draw = self.draw
        requests = {
            "cpu": draw.choice([1000, 4000, 8000]) * gpus,
            "memory": draw.choice([8, 32]) * GIB * gpus,
        }
        requests[GPU] = gpus
        if draw.random() < 0.2:
            requests[RDMA] = 1
        if draw.random() < 0.2:
            requests["ephemeral-storage"] = draw.choice([20, 100]) * GIB
        return {
            "namespace": draw.choice(NAMESPACES),
            "labels": {"app": name, "tier": draw.choice("ab")},
            "requests": requests,
            "gpu_milli": milli,
            "workload": f"owner-{name}",
            "owner_kind": draw.choice(["ReplicaSet", "StatefulSet", "Job"]),
            "phase": "Running",
            "ready": draw.random() > 0.03,
            "priority": draw.choice([0, 0, 10, 100]),
            "started_at": NOW - draw.choice([100.0, 5000.0, 90_000.0]),
            "checkpointed_at": draw.choice([None, None, NOW - 50.0]),
            "environment": draw.choice(["", "", "", "prod"]),
            "service": draw.choice(["", "online", "offline"]),
            "protections": ("Its owner protects it.",) if draw.random() < self.kind.protected else (),
            "tolerations": (Toleration("dedicated", "Exists"),) if draw.random() < 0.4 else (),
        }

    def _wishes(self, name: str) -> dict[str, Any]:
        draw = self.draw
        if draw.random() >= self.kind.rules:
            return {}
        own, tier = select(app=name), select(tier=draw.choice("ab"))
        options: list[dict[str, Any]] = [
            {"node_selector": {MODEL: f"model-{draw.randrange(self.kind.models)}"}},
            {
                "node_terms": (
                    NodeTerm((Requirement(ZONE, "In", tuple(draw.sample(["z0", "z1", "z2"], 2))),)),
                )
            },
            {"node_terms": (NodeTerm((Requirement(RACK, "NotIn", (f"r{draw.randrange(4)}",)),)),)},
            {"host_ports": (draw.choice([8080, 9090]),)},
            {"pod_anti_affinity": (PodTerm(HOST, draw.choice([own, tier])),)},
            {"pod_anti_affinity": (PodTerm(RACK, tier),)},
            {"pod_affinity": (PodTerm(draw.choice([ZONE, RACK]), own),)},
            {"spread": (SpreadConstraint(draw.choice([HOST, ZONE]), draw.choice([1, 2]), own),)},
            {"volumes_pin_node": draw.random() < 0.5},
            {"pod_affinity": (PodTerm(ZONE, own),), "pod_anti_affinity": (PodTerm(HOST, own),)},
        ]
        return draw.choice(options[:5] if self.kind.by_node else options)

    def _add_cpu_pod(self, name: str) -> None:
        draw = self.draw
        shape = self._shape(name, 1, 1000)
        shape["requests"] = {"cpu": draw.choice([1000, 8000, 30_000]), "memory": 4 * GIB}
        shape |= self._wishes(name)
        pod = Pod(uid=f"uid-{name}", name=name, **shape)
        node = self._place(pod)
        if node:
            self._add_owner(name, shape, [node])

    def _add_owner(self, name: str, shape: dict[str, Any], members: list[str]) -> None:
        draw, uid = self.draw, shape["workload"]
        self.workloads[uid] = Workload(
            uid,
            shape["owner_kind"],
            shape["namespace"],
            name,
            replicas=len(members),
            updating=draw.random() < 0.03,
        )
        if draw.random() < 0.3:
            self.budgets[f"uid-pdb-{name}"] = DisruptionBudget(
                shape["namespace"],
                f"pdb-{name}",
                f"uid-pdb-{name}",
                select(app=name),
                disruptions_allowed=draw.choice([0, 1, 1, 2]),
                always_allow_unhealthy=draw.random() < 0.3,
            )
        if len(members) > 1 and draw.random() < 0.25:
            key = f"{shape['namespace']}/{name}"
            self.gangs[key] = Gang(key, draw.choice([2, max(2, len(members) - 1), len(members)]))
            for number_uid in [uid_ for uid_, pod in self.pods.items() if pod.workload == uid]:
                self.pods[number_uid] = replace(self.pods[number_uid], gang=key)

    def _place(self, pod: Pod) -> str:
        """Somewhere with room; rules between pods are not asked, as where pods came before the rules."""
        names = list(self.nodes)
        self.draw.shuffle(names)
        for name in names[:12]:
            seats = self._seats(pod, name)
            if seats is not None:
                self._settle(replace(pod, node_name=name), name, seats)
                return name
        return ""

    def _seats(self, pod: Pod, name: str) -> list[tuple[int, int]] | None:
        left = self.left[name]
        if left["pods"] < 1 or any(
            left.get(one, 0) < need for one, need in pod.requests.items() if one != GPU
        ):
            return None
        node = self.nodes[name]
        if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
            return None
        number = pod.requests.get(GPU, 0)
        fitting = [at for at, milli in enumerate(self.devices[name]) if milli >= pod.gpu_milli]
        if pod.gpu_milli < 1000:
            fitting.sort(key=lambda at: self.devices[name][at])
        return [(at, pod.gpu_milli) for at in fitting[:number]] if len(fitting) >= number else None

    def _settle(self, pod: Pod, name: str, seats: Iterable[tuple[int, int]]) -> None:
        self.pods[pod.uid] = pod
        for one, need in pod.requests.items():
            self.left[name][one] = self.left[name].get(one, 0) - need
        self.left[name]["pods"] -= 1
        for at, milli in seats:
            self.devices[name][at] -= milli
            self.holdings[name].append(Holding(pod.uid, self.nodes[name].gpus[at].uuid, milli))

    def add_waiting(self) -> None:
        draw = self.draw
        for number in range(self.kind.waiting):
            name = f"wait{number}"
            members = draw.choice([1, 1, 2, 3])
            gpus = draw.choice([1, 2, 4, self.kind.gpus, self.kind.gpus])
            shape = self._shape(name, gpus, 1000)
            shape["requests"] = {"cpu": 1000 * gpus, "memory": 8 * GIB * gpus, GPU: gpus}
            shape |= {"phase": "Pending", "ready": False, "protections": (), "started_at": None}
            shape |= {"priority": draw.choice([0, 50, 1000]), "created_at": NOW - number}
            shape["preemption_policy"] = draw.choice(
                ["PreemptLowerPriority", "PreemptLowerPriority", "Never"]
            )
            if draw.random() < 0.3 and not self.kind.by_node:
                shape["link"] = LinkClass.NVLINK
            wishes = self._wishes(name)
            shape |= {key: value for key, value in wishes.items() if key != "volumes_pin_node"}
            if members > 1:
                shape["gang"] = f"{shape['namespace']}/{name}"
                self.gangs[shape["gang"]] = Gang(shape["gang"], members)
            for at in range(members):
                uid = f"uid-{name}-{at}"
                self.pods[uid] = Pod(uid=uid, name=f"{name}-{at}", **shape)
            self.workloads[shape["workload"]] = Workload(shape["workload"], "Job", shape["namespace"], name)


def select(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, "In", (value,)) for key, value in sorted(labels.items())))


def _links(letters: str) -> Topology:
    return Topology(
        tuple(
            tuple("X" if a == b else "NV12" if one == other else "SYS" for b, other in enumerate(letters))
            for a, one in enumerate(letters)
        ),
        source="drawn",
    )


def draw_mig_scene(draw: random.Random, nodes: int = 4, gpus: int = 4) -> Snapshot:
    """A100-40GB cut at random, a part of the instances in use, pods that wait for others."""
    made: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    load = draw.uniform(0.2, 0.8)
    for number in range(nodes):
        name = f"m{number:02}"
        cuts = [_draw_cut(draw, name, at) for at in range(gpus)]
        offered: Counter[str] = Counter({GPU: sum(not gpu.instances for gpu in cuts)})
        holdings = []
        for gpu in cuts:
            for at, one in enumerate(gpu.instances):
                offered[f"nvidia.com/mig-{one.profile}"] += 1
                if draw.random() < load:
                    pod = _mig_pod(draw, f"{name}-{gpu.index}-{at}", one.profile, name)
                    pods[pod.uid] = pod
                    holdings.append(Holding(pod.uid, one.uuid))
        allocatable = {"cpu": 64_000, "memory": 512 * GIB, "pods": 110, **offered}
        made[name] = Node(
            name,
            uid=f"uid-{name}",
            labels={HOST: name},
            allocatable=allocatable,
            capacity=allocatable,
            vendor="nvidia",
            model="A100-SXM4-40GB",
            gpu_resource=GPU,
            gpus=tuple(cuts),
            mig_strategy="mixed",
            holdings=tuple(holdings),
        )
    for number in range(draw.randrange(1, nodes * gpus + 1)):
        pod = _mig_pod(draw, f"wait-{number}", draw.choice(PROFILES), "")
        pods[pod.uid] = pod
    owners = {pod.workload: Workload(pod.workload, "ReplicaSet", "team", pod.name) for pod in pods.values()}
    return Snapshot("random", NOW, made, pods, owners)


def _draw_cut(draw: random.Random, name: str, index: int) -> Gpu:
    layout = draw.choice(list_full_layouts(MIG_MODEL, PROFILES)) if draw.random() < 0.8 else ()
    instances = tuple(
        MigInstance(cut.profile, cut.start, f"MIG-{name}-{index}-{cut.start}") for cut in layout
    )
    return Gpu(index, f"GPU-{name}-{index}", 40960, instances=instances)


def _mig_pod(draw: random.Random, name: str, profile: str, node: str) -> Pod:
    return Pod(
        uid=f"uid-{name}",
        namespace="team",
        name=name,
        node_name=node,
        phase="Running" if node else "Pending",
        ready=bool(node),
        requests={"cpu": 1000, "memory": GIB, f"nvidia.com/mig-{profile}": 1},
        workload=f"owner-{name}",
        owner_kind="ReplicaSet",
        protections=("Its owner protects it.",) if node and draw.random() < 0.1 else (),
    )
