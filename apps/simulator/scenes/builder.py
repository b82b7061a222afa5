"""Puts a scene together: nodes with devices, owners, and pods that already run on given devices.

What comes out is what the API server would hold after the controllers had settled, so that nothing
moves when they start. Not here: which workloads a scene has.
"""

from __future__ import annotations

import random
import uuid
from copy import deepcopy
from datetime import timedelta
from typing import Any

from apps.simulator.controllers.kubelet.devices import DeviceLedger, Held, choose_group
from apps.simulator.controllers.kubelet.gpu_stack import offer_counts
from apps.simulator.controllers.kubelet.reports import node_status, running_status
from apps.simulator.controllers.pace import now, to_text
from apps.simulator.hardware import (
    HARDWARE_ANNOTATION,
    MODELS,
    UNHEALTHY_ANNOTATION,
    Hardware,
    build_hardware,
    labels_for,
)
from apps.simulator.mig.features import discover_features
from apps.simulator.mig.setup import Setup, setup_of
from apps.simulator.scenes.owners import (
    Owner,
    count_budget,
    owner_object,
    pod_body,
    replica_set_of,
    with_status,
)
from apps.simulator.scenes.parts import (
    agent_notes,
    first_of,
    is_silent,
    lease_spec,
    make_silent,
    mark_not_ready,
    scheduled_condition,
)

Json = dict[str, Any]

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_CLASSES = {"prod": 100000, "high": 10000, "training": 1000, "normal": 1000, "low": 100}
_ALL_CLASSES = _CLASSES | {"system-node-critical": 2_000_001_000}  # a cluster has this one by itself
_PROBLEM = "node.kubernetes.io/unreachable"


class SceneBuilder:
    """seed: makes names and ages the same each time. Ages are counted back from now."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = now()
        self._nodes: dict[str, Json] = {}
        self._setups: dict[str, Setup] = {}
        self._ledgers: dict[str, DeviceLedger] = {}
        self._owners: list[Owner] = []
        self._pods: list[Json] = []
        self._others: list[Json] = []
        self._namespaces: dict[str, Json] = {}
        for name, value in _CLASSES.items():
            self._add_class(name, value)

    # --- the parts ---

    def ago(self, **age: float) -> str:
        return to_text(self.now - timedelta(**age))

    def add_node(
        self,
        name: str,
        model: str = "",
        count: int = 8,
        *,
        pool: str,
        rack: str,
        zone: str,
        cpu: int = 128,
        memory_gib: int = 1024,
        unhealthy: tuple[int, ...] = (),
        more_labels: dict[str, str] | None = None,
        notes: dict[str, str] | None = None,
    ) -> None:
        """model: a name of hardware.MODELS, "" for a node without accelerators. notes: further
        annotations of the simulation."""
        hardware = build_hardware(name, MODELS[model], count) if model else None
        annotations = ({HARDWARE_ANNOTATION: f"{model}:{count}"} if hardware else {}) | (notes or {})
        if unhealthy:
            annotations[UNHEALTHY_ANNOTATION] = ",".join(map(str, unhealthy))
        labels = {
            "defrag.gpu.internal/pool": pool,
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/rack": rack,
            "topology.kubernetes.io/region": "east-1",
        } | (more_labels or {})
        capacity = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": "110", "ephemeral-storage": "2Ti"}
        allocatable = {**capacity, "cpu": str(cpu - 2), "memory": f"{memory_gib - 24}Gi"}
        self.add_machine(name, hardware, capacity, allocatable, labels, annotations)

    def add_machine(
        self,
        name: str,
        hardware: Hardware | None,
        capacity: dict[str, str],
        allocatable: dict[str, str],
        labels: dict[str, str],
        annotations: dict[str, str] | None = None,
    ) -> None:
        """A node with all that is known of it given."""
        node = self._object("v1", "Node", "", name, age_days=90)
        node["metadata"] |= {"labels": labels_for(name, hardware) | labels, "annotations": annotations or {}}
        node |= {"spec": {}, "status": {"capacity": capacity, "allocatable": allocatable}}
        setup = setup_of(node) if HARDWARE_ANNOTATION in node["metadata"]["annotations"] else None
        if hardware and setup is None:
            setup = Setup(hardware)
        if setup:
            node["metadata"]["labels"] = discover_features(setup) | node["metadata"]["labels"]
            self._setups[name] = setup
            self._ledgers[name] = DeviceLedger(setup)
        node["status"] = node_status(node, hardware, offer_counts(setup, setup) if setup else {})
        self._nodes[name] = node

    def cordon(self, name: str) -> None:
        """By a person: no annotation of ours says why."""
        self._nodes[name]["spec"]["unschedulable"] = True
        self._add_taint(name, "node.kubernetes.io/unschedulable", "NoSchedule")

    def silence(self, name: str, minutes: float) -> None:
        """Its kubelet stopped so long ago."""
        make_silent(self._nodes[name], since=self.ago(minutes=minutes), lost=self.ago(minutes=minutes - 0.8))
        for effect in ("NoSchedule", "NoExecute"):
            self._add_taint(name, _PROBLEM, effect)

    def add_namespace(self, name: str, **annotations: str) -> None:
        space = self._object("v1", "Namespace", "", name, age_days=90)
        space["metadata"]["annotations"] = annotations
        self._namespaces[name] = space

    def add_owner(self, owner: Owner) -> Owner:
        if owner.namespace not in self._namespaces:
            self.add_namespace(owner.namespace)
        owner.made = self._object(owner.api, owner.kind, owner.namespace, owner.name, age_days=owner.age_days)
        if owner.kind == "Deployment":
            name, body = replica_set_of(owner)
            child = self._object("apps/v1", "ReplicaSet", owner.namespace, name, age_days=owner.age_days)
            child["metadata"] |= body.pop("metadata")
            owner.child = {**child, **body}
        self._owners.append(owner)
        return owner

    def add_budget(self, owner: Owner, **limit: int | str) -> None:
        """limit: minAvailable=… or maxUnavailable=…"""
        budget = self._object("policy/v1", "PodDisruptionBudget", owner.namespace, owner.name, age_days=60)
        budget["spec"] = {"selector": {"matchLabels": {"app": owner.name}}, **limit}
        budget["metadata"]["generation"] = 1
        self._others.append(budget)

    def add_pod_group(self, namespace: str, name: str, members: int, age_minutes: float = 60 * 24) -> None:
        group = self._object(
            "scheduling.x-k8s.io/v1alpha1", "PodGroup", namespace, name, age_days=age_minutes / 1440
        )
        self._others.append({**group, "spec": {"minMember": members}})

    def put(self, owner: Owner, node: str, devices: tuple[int, ...] = ()) -> Json:
        """One running pod of the owner on these devices of the node."""
        pod = self._new_pod(owner)
        pod["spec"]["nodeName"] = node
        age = self.rng.uniform(2, 72) if owner.age_days > 3 else owner.age_days * self.rng.uniform(8, 23)
        began = self.ago(hours=age)
        pod["metadata"]["creationTimestamp"] = began
        pod["status"] = running_status(pod, began)
        pod["status"]["conditions"].append(scheduled_condition(began))
        if is_silent(self._nodes[node]):
            mark_not_ready(pod)
        for index in devices:
            self._hold(pod, node, index)
        return pod

    def put_pending(self, owner: Owner, minutes: float, message: str) -> Json:
        pod = self._new_pod(owner)
        born = self.ago(minutes=minutes)
        pod["metadata"]["creationTimestamp"] = born
        pod["status"] = {"phase": "Pending", "conditions": [scheduled_condition(born, refused=message)]}
        return pod

    def hold_share(self, pod: Json, node: str, index: int, milli: int) -> None:
        """A part of a device, beside other pods that share it."""
        self._ledgers[node].place(index, self._held(pod, node, milli))

    def free_devices(self, node: str, count: int) -> tuple[int, ...]:
        """The ones the device plugin would hand out."""
        ledger = self._ledgers[node]
        return choose_group(ledger.hardware, ledger.free(), count)

    def nodes(self) -> list[Json]:
        return list(self._nodes.values())

    def put_anywhere(self, owner: Owner, node: str, gpu: int | None = None) -> Json:
        """A running pod on the devices it asks for, as the device plugin hands them out.
        gpu: the one whose MIG instances are taken first."""
        pod, ledger = self.put(owner, node), self._ledgers[node]
        if self._setups[node].sharing.is_on:
            return pod
        offers = ledger.offers
        if gpu is not None:
            ledger.offers = {name: first_of(offers[name], gpu) for name in offers}
        ledger.allocate(pod)
        ledger.offers = offers
        return pod

    def hands_out(self, node: str) -> bool:
        """Whether the simulated kubelet of the node hands out its devices."""
        return node in self._ledgers

    def add_config_map(self, namespace: str, name: str, data: dict[str, str]) -> None:
        self.add_object("v1", "ConfigMap", namespace, name, data=data)

    def add_object(self, api: str, kind: str, namespace: str, name: str, **body: Any) -> None:
        self._others.append({**self._object(api, kind, namespace, name, age_days=60), **body})

    def put_daemon(self, owner: Owner) -> None:
        """One pod on every node that the owner's selector takes."""
        wanted = owner.template["spec"].get("nodeSelector") or {}
        for name, node in self._nodes.items():
            if wanted.items() <= node["metadata"]["labels"].items():
                self.put(owner, name)

    def build(self) -> list[Json]:
        for name, ledger in self._ledgers.items():
            node = self._nodes[name]
            node["metadata"]["annotations"] |= agent_notes(node, self._setups[name], ledger, self.now)
        things = [*self._namespaces.values(), *self._others_first(), *self._nodes.values(), *self._leases()]
        for owner in self._owners:
            if owner.child:
                things.append(with_status(owner, owner.child, "ReplicaSet"))
            things.append(with_status(owner, owner_object(owner), owner.kind))
        return [*things, *self._budgets(), *self._pods]

    # --- how they are made ---

    def _object(self, api: str, kind: str, namespace: str, name: str, *, age_days: float) -> Json:
        uid = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        meta: Json = {"name": name, "uid": uid, "creationTimestamp": self.ago(days=age_days)}
        if namespace:
            meta["namespace"] = namespace
        return {"apiVersion": api, "kind": kind, "metadata": meta}

    def _new_pod(self, owner: Owner) -> Json:
        suffix = "".join(self.rng.choice(_LETTERS) for _ in range(5))
        body = pod_body(owner, len(owner.pods), suffix, _ALL_CLASSES)
        pod = self._object("v1", "Pod", owner.namespace, body["metadata"].pop("name"), age_days=1)
        pod["metadata"] |= body["metadata"]
        pod["spec"] = deepcopy(body["spec"])
        owner.pods.append(pod)
        self._pods.append(pod)
        return pod

    def _hold(self, pod: Json, node: str, index: int) -> None:
        if index not in self._ledgers[node].free():
            raise ValueError(f"device {index} of {node} is not free for {pod['metadata']['name']}")
        self._ledgers[node].place(index, self._held(pod, node, 1000))

    def _held(self, pod: Json, node: str, milli: int) -> Held:
        meta, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
        memory = self._ledgers[node].hardware.model.memory_mib * milli // 1000
        return Held(meta["namespace"], meta["name"], meta["uid"], container, milli, memory)

    def _add_taint(self, name: str, key: str, effect: str) -> None:
        taints = self._nodes[name]["spec"].setdefault("taints", [])
        taints.append({"key": key, "effect": effect, "timeAdded": self.ago(minutes=5)})

    def _add_class(self, name: str, value: int) -> None:
        each = self._object("scheduling.k8s.io/v1", "PriorityClass", "", name, age_days=90)
        # Training waits for whole nodes instead of throwing others out.
        policy = "Never" if name == "training" else "PreemptLowerPriority"
        self._others.append({**each, "value": value, "preemptionPolicy": policy})

    def _leases(self) -> list[Json]:
        leases = []
        for name, node in self._nodes.items():
            lease = self._object("coordination.k8s.io/v1", "Lease", "kube-node-lease", name, age_days=90)
            beat = self.now - timedelta(minutes=6 if is_silent(node) else 0)
            leases.append({**lease, "spec": lease_spec(name, beat)})
        return leases

    def _others_first(self) -> list[Json]:
        return [each for each in self._others if each["kind"] != "PodDisruptionBudget"]

    def _budgets(self) -> list[Json]:
        return [
            count_budget(each, self._pods) for each in self._others if each["kind"] == "PodDisruptionBudget"
        ]
