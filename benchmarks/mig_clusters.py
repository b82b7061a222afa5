"""Random MIG clusters, by seed: nodes whose GPUs are cut at random, pods in use and pods that wait.

    snapshot = make_cluster(MigScene(seed=1, nodes=5, models=("A100-40GB",)))

Pods in use are held by device, a part of them may not move; what waits has priorities, gangs and wishes for
one of two pools.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from apps.planner.inventory import Gpu, Holding, MigInstance, Node, Pod, Workload
from apps.planner.mig.catalogue import MODELS, profile_resource
from apps.planner.mig.layouts import list_full_layouts, list_layouts
from apps.planner.mig.models import MigModel
from apps.planner.snapshot import Snapshot

GIB = 2**30
GANG_SIZES = (2, 3, 5)


@dataclass(frozen=True, slots=True)
class MigScene:
    """gpus: in all; the last node may have fewer than per_node. load: part of the instances in use. demand:
    what waits, as a part of the compute slices that nobody uses. pinned: part of the pods in use that may
    not move. cut: part of the GPUs that are in MIG mode. pools: node pools; a part of the pods wants one."""

    seed: str
    gpus: int
    models: tuple[str, ...]
    per_node: int = 8
    load: float = 0.5
    demand: float = 0.5
    pinned: float = 0.1
    cut: float = 0.9
    gangs: bool = True
    pools: int = 2


def make_cluster(scene: MigScene) -> Snapshot:
    return _Scene(scene).build()


def plain_profiles(model: MigModel) -> tuple[str, ...]:
    return tuple(name for name in model.by_name if "+" not in name and "-" not in name)


class _Scene:
    def __init__(self, scene: MigScene) -> None:
        self.scene, self.rng = scene, random.Random(f"mig {scene}")
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.owners: dict[str, Workload] = {}
        self.left: Counter[str] = Counter()

    def build(self) -> Snapshot:
        for number, begin in enumerate(range(0, self.scene.gpus, self.scene.per_node)):
            self._add_node(number, min(self.scene.per_node, self.scene.gpus - begin))
        for name in self.scene.models:
            self._add_waiting(MODELS[name])
        return Snapshot("made", 100.0, nodes=self.nodes, pods=self.pods, workloads=self.owners)

    def _add_node(self, number: int, gpus: int) -> None:
        name = f"node-{number:05}"
        model = MODELS[self.scene.models[number % len(self.scene.models)]]
        made: list[Gpu] = []
        offered: Counter[str] = Counter()
        holdings: list[Holding] = []
        for at in range(gpus):
            instances = self._cut(model, f"{name}-{at}")
            made.append(Gpu(at, f"GPU-{name}-{at}", model.memory_gb * 1024, instances=instances))
            offered.update(profile_resource(one.profile) for one in instances)
            self.left[model.name] += model.compute_slices
            for one in instances:
                if self.rng.random() < self.scene.load:
                    pod = self._add_guest(one, name)
                    holdings.append(Holding(pod.uid, one.uuid))
                    self.left[model.name] -= model.by_name[one.profile].compute_slices
        whole = sum(1 for gpu in made if not gpu.instances)
        room = {"cpu": 512000, "memory": 4096 * GIB, "pods": 250, "nvidia.com/gpu": whole, **offered}
        self.nodes[name] = Node(
            name,
            uid=f"uid-{name}",
            labels={"pool": self._pool(number)} if self.scene.pools > 1 else {},
            allocatable=room,
            capacity=room,
            vendor="nvidia",
            model=model.name,
            gpu_resource="nvidia.com/gpu",
            gpus=tuple(made),
            mig_strategy="mixed",
            holdings=tuple(holdings),
        )

    def _pool(self, number: int) -> str:
        return f"pool-{number // len(self.scene.models) % self.scene.pools}"

    def _cut(self, model: MigModel, name: str) -> tuple[MigInstance, ...]:
        if self.rng.random() >= self.scene.cut:
            return ()
        listed = list_full_layouts if self.rng.random() < 0.7 else list_layouts
        layout = self.rng.choice(listed(model, plain_profiles(model)))
        return tuple(MigInstance(one.profile, one.start, f"MIG-{name}-{one.start}") for one in layout)

    def _add_guest(self, instance: MigInstance, node: str) -> Pod:
        is_pinned = self.rng.random() < self.scene.pinned
        pod = self._pod(f"in-use-{len(self.pods)}", instance.profile, node_name=node, phase="Running")
        if is_pinned:
            pod = self.pods[pod.uid] = _changed(pod, protections=("Its owner protects it.",))
        return pod

    def _add_waiting(self, model: MigModel) -> None:
        slices = self.scene.demand * self.left[model.name]
        while slices > 0:
            profile = self.rng.choice(plain_profiles(model))
            size = self.rng.choice(GANG_SIZES) if self.scene.gangs and self.rng.random() < 0.15 else 1
            gang = f"team/gang-{len(self.pods)}" if size > 1 else ""
            priority = self.rng.choice((0, 0, 0, 100))
            for _ in range(size):
                name = f"waits-{len(self.pods)}"
                self._pod(name, profile, gang=gang, priority=priority, created_at=float(len(self.pods)))
            slices -= size * model.by_name[profile].compute_slices

    def _pod(self, name: str, profile: str, **changes: object) -> Pod:
        wish = self.scene.pools > 1 and self.rng.random() < 0.3 and not changes.get("gang")
        wants = {"pool": f"pool-{self.rng.randrange(self.scene.pools)}"}
        if wish and changes.get("node_name"):
            wants = dict(self._labels_of(str(changes["node_name"])))
        pod = Pod(
            uid=f"uid-{name}",
            namespace="team",
            name=name,
            ready="node_name" in changes,
            requests={"cpu": 1000, "memory": GIB, profile_resource(profile): 1},
            workload=f"owner-{name}",
            owner_kind="ReplicaSet",
            node_selector=wants if wish else {},
        )
        self.pods[pod.uid] = pod = _changed(pod, **changes)
        self.owners[pod.workload] = Workload(pod.workload, "ReplicaSet", "team", name)
        return pod

    def _labels_of(self, node: str) -> dict[str, str]:
        return {"pool": self._pool(int(node.rpartition("-")[2]))}


def _changed(pod: Pod, **changes: object) -> Pod:

    return replace(pod, **changes)  # type: ignore[arg-type]
