"""Whose the pods are, and how much of the cluster each tenant holds: the dominant share of DRF.

A tenant is a queue where the pod, its gang or its owner names one, else a namespace. Only what holds a node
counts; what waits holds nothing. Not in here: who goes first (queue_order), quotas of queue objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.planner.inventory import Node, Pod
from apps.planner.resources import Demand, asks_gpu, demand_of, is_device_resource
from apps.planner.room import deals_by_device
from apps.planner.rooms import WHOLE
from apps.planner.snapshot import Snapshot

QUEUE_LABELS = (
    "kueue.x-k8s.io/queue-name",
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
)
Amounts = Mapping[str, int]
"""CPU in millicores, memory in bytes, whole GPUs in milli, MIG instances counted; by resource."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """is_queue: else a namespace."""

    name: str
    is_queue: bool

    @property
    def words(self) -> str:
        return f"{'queue' if self.is_queue else 'namespace'} {self.name}"


def queue_of(pod: Pod) -> str:
    """The queue that a queue controller's label on the pod names; "" without one."""
    return next((pod.labels[label] for label in QUEUE_LABELS if pod.labels.get(label)), "")


def queue_named_for(snapshot: Snapshot, pod: Pod) -> str:
    """The queue that the pod, its gang or its owner names; "" where none does."""
    gang, owner = snapshot.gangs.get(pod.gang), snapshot.workloads.get(pod.workload)
    return queue_of(pod) or (gang.queue if gang else "") or (owner.queue if owner else "")


def tenant_of(snapshot: Snapshot, pod: Pod) -> Tenant:
    """Queues of Kueue's local kind are namespaced; two of one name are told apart by their namespace only
    where the label says so, so a queue's name is taken as it stands."""
    named = queue_named_for(snapshot, pod)
    return Tenant(named, is_queue=True) if named else Tenant(pod.namespace, is_queue=False)


class Demands:
    """What pods ask for, worked out once for all of one shape."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = snapshot.nodes.values()
        self._gpu_names = frozenset(node.gpu_resource for node in nodes if node.gpu_resource)
        self._known: dict[tuple[object, ...], Demand] = {}

    def of(self, pod: Pod) -> Demand:
        shape = (tuple(sorted(pod.requests.items())), pod.gpu_milli, pod.gpu_memory_mib, pod.reservation)
        if shape not in self._known:
            self._known[shape] = demand_of(pod, self._gpu_names)
        return self._known[shape]

    def amounts_of(self, pod: Pod) -> dict[str, int]:
        demand = self.of(pod)
        found = {name: amount for name, amount in demand.resources if _is_shared(name)}
        if demand.gpus:
            found[demand.gpu_resource] = demand.gpu_milli
        return found


@dataclass(slots=True)
class Holdings:
    """totals: of all nodes. held: by tenant. busy: share of all whole GPUs that pods hold, 0 to 1."""

    totals: Counter[str] = field(default_factory=Counter)
    held: dict[Tenant, Counter[str]] = field(default_factory=dict)
    busy: float = 0.0

    def share_of(self, tenant: Tenant) -> tuple[float, str]:
        """Its dominant share (0 where it holds nothing), and the resource that it is of."""
        held = self.held.get(tenant)
        shares = [
            (amount / self.totals[name], name)
            for name, amount in (held or {}).items()
            if amount > 0 and self.totals[name] > 0
        ]
        return max(shares, default=(0.0, ""))

    def add(self, tenant: Tenant, amounts: Amounts) -> None:
        self.held.setdefault(tenant, Counter()).update(amounts)


def read_holdings(snapshot: Snapshot, demands: Demands) -> Holdings:
    """Of pods that hold a node now; paper holds and schedulers' placeholders are nobody's load."""
    found, gpu_names = Holdings(), set[str]()
    for node in snapshot.nodes.values():
        found.totals.update(_offers_of(node))
        gpu_names.add(node.gpu_resource)
    for pods in snapshot.pods_by_node.values():
        for pod in pods:
            if not (pod.hold or pod.reservation):
                found.add(tenant_of(snapshot, pod), demands.amounts_of(pod))
    gpu_names.discard("")
    all_gpus = sum(found.totals[name] for name in gpu_names)
    held = sum(amounts[name] for amounts in found.held.values() for name in gpu_names)
    found.busy = held / all_gpus if all_gpus else 0.0
    return found


def sum_amounts(demands: Demands, pods: Iterable[Pod]) -> Counter[str]:
    total = Counter[str]()
    for pod in pods:
        total.update(demands.amounts_of(pod))
    return total


def wants_devices(pod: Pod) -> bool:
    return asks_gpu(pod) or bool(pod.claim_wishes)


def _offers_of(node: Node) -> dict[str, int]:
    offers = {name: amount for name, amount in node.allocatable.items() if _is_shared(name)}
    if node.gpu_resource:
        cards = len(node.gpus) if deals_by_device(node) else node.allocatable.get(node.gpu_resource, 0)
        offers[node.gpu_resource] = cards * WHOLE
    return offers


def _is_shared(resource: str) -> bool:
    """Resources that tenants compete for; pod counts, disks and network cards are left out."""
    return resource in ("cpu", "memory") or is_device_resource(resource)
