"""Queues with quota, and what is asked beside the pods, become the planner's facts.

KAI's and Volcano's Queues, scheduler-plugins' ElasticQuotas and the ResourceQuotas of namespaces are read
here, Kueue's objects by `kueue`. Only quotas on devices are kept of a ResourceQuota: what else it bounds is
the namespace's own affair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from apps.kube.gateway import (
    CLUSTER_QUEUES,
    COHORTS,
    ELASTIC_QUOTAS,
    FLAVORS,
    GPU_REQUESTS,
    KAI_QUEUES,
    LOCAL_QUEUES,
    QUEUED_WORKLOADS,
    QUOTAS,
    VOLCANO_QUEUES,
    Kind,
)
from apps.kube.translate.gpu_requests import read_gpu_request
from apps.kube.translate.kueue import (
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_queued_workload,
)
from apps.kube.translate.values import amount_of, amounts, child, clean, number, whole, whole_or_none
from apps.planner.queues import Controller, Entrance, Flavor, GpuRequest, Queue, QueuedWorkload, Share
from apps.planner.resources import is_device_resource

KAI_PARTS = {"gpu": ("nvidia.com/gpu", 1.0), "cpu": ("cpu", 1.0), "memory": ("memory", 1e6)}
"""KAI's words -> (resource, how many of the planner's units one of KAI's is)."""
VOLCANO_OPEN = ("", "Open", "Unknown")
ROOT = "root"
REQUESTS = "requests."
LIMITS = "limits."

Remember = Callable[[str, Any, Callable[[Mapping[str, Any]], Any], list[str]], Any]


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """As on `Snapshot`, by the same names."""

    queues: dict[str, Queue] = field(default_factory=dict)
    entrances: dict[str, Entrance] = field(default_factory=dict)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    queued: dict[str, QueuedWorkload] = field(default_factory=dict)
    gpu_requests: dict[str, GpuRequest] = field(default_factory=dict)

    def as_fields(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


def read_queue_facts(
    objects: Mapping[Kind, Iterable[Any]], remember: Remember, said: list[str]
) -> QueueFacts:
    """remember: answers for what was read before, and says what cannot be read."""

    def read_all(kind: Kind, name: str, read: Callable[[Mapping[str, Any]], Any]) -> Iterator[Any]:
        found = (remember(name, raw, read, said) for raw in objects.get(kind, ()))
        return (one for one in found if one is not None)

    entrances = {one.key: one for one in read_all(LOCAL_QUEUES, "local queue", read_local_queue)}
    queues = [
        *read_all(CLUSTER_QUEUES, "cluster queue", read_cluster_queue),
        *read_all(COHORTS, "cohort", read_cohort),
        *read_all(KAI_QUEUES, "KAI queue", read_kai_queue),
        *read_all(VOLCANO_QUEUES, "Volcano queue", read_volcano_queue),
        *read_all(ELASTIC_QUOTAS, "elastic quota", read_elastic_quota),
        *(one for one in read_all(QUOTAS, "resource quota", read_resource_quota) if one.shares),
    ]
    return QueueFacts(
        queues=_with_namespaces(_with_named_cohorts(queues), entrances.values()),
        entrances=entrances,
        flavors={one.name: one for one in read_all(FLAVORS, "resource flavor", read_flavor)},
        queued={one.key: one for one in read_all(QUEUED_WORKLOADS, "workload", read_queued_workload)},
        gpu_requests={one.key: one for one in read_all(GPU_REQUESTS, "GPURequest", read_gpu_request)},
    )


def _with_named_cohorts(queues: Iterable[Queue]) -> dict[str, Queue]:
    """A cohort needs no object: being named is enough."""
    found = {one.key: one for one in queues}
    for one in [*found.values()]:
        if one.controller is Controller.KUEUE and one.parent and one.parent not in found:
            name = one.parent.rpartition("/")[2]
            found[one.parent] = Queue(one.parent, Controller.KUEUE, "Cohort", name)
    return found


def _with_namespaces(queues: dict[str, Queue], entrances: Iterable[Entrance]) -> dict[str, Queue]:
    spaces: dict[str, set[str]] = defaultdict(set)
    for one in entrances:
        spaces[one.queue].add(one.key.partition("/")[0])
    return {
        key: replace(queue, namespaces=tuple(sorted(spaces[key]))) if key in spaces else queue
        for key, queue in sorted(queues.items())
    }


def kai_key(name: object) -> str:
    found = clean(name, 253)
    return f"{Controller.KAI}/{found}" if found else ""


def read_kai_queue(raw: Mapping[str, Any]) -> Queue:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    allocated = amounts(child(status, "allocated"))
    firm = amounts(child(status, "allocatedNonPreemptible"))
    shares = []
    for word, (resource, unit) in KAI_PARTS.items():
        bounds = child(spec, "resources", word)
        if not bounds:
            continue
        quota, limit = (_kai_bound(bounds.get(key), unit) for key in ("quota", "limit"))
        beyond = None if quota is None or limit is None else max(0.0, limit - quota)
        used = allocated.get(resource, allocated.get(word, 0.0))
        shares.append(
            Share(
                flavor="",
                resource=resource,
                quota=quota,
                used=used,
                most_borrowed=beyond,
                weight=number(bounds.get("overQuotaWeight"), 0.0),
                firm=firm.get(resource, firm.get(word, 0.0)),
            )
        )
    return Queue(
        key=kai_key(metadata.get("name")),
        controller=Controller.KAI,
        kind="Queue",
        name=clean(metadata.get("name"), 253),
        parent=kai_key(spec.get("parentQueue")),
        shares=tuple(shares),
        priority=whole(spec.get("priority"), 100),
    )


def _kai_bound(value: object, unit: float) -> float | None:
    """-1 is without a bound. KAI takes an absent number for 0."""
    found = number(value, 0.0)
    return None if found < 0 else found * unit


def volcano_key(name: object) -> str:
    found = clean(name, 253)
    return f"{Controller.VOLCANO}/{found}" if found else ""


def read_volcano_queue(raw: Mapping[str, Any]) -> Queue:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    most, deserved = amounts(child(spec, "capability")), amounts(child(spec, "deserved"))
    kept, allocated = amounts(child(spec, "guarantee", "resource")), amounts(child(status, "allocated"))
    shares = []
    for resource in dict.fromkeys((*most, *deserved, *allocated)):
        bound = most.get(resource)
        quota = deserved.get(resource, bound)
        beyond = None if quota is None or bound is None else max(0.0, bound - quota)
        lent = max(0.0, (quota or 0.0) - kept[resource]) if resource in kept else None
        weight = float(whole(spec.get("weight"), 1))
        shares.append(Share("", resource, quota, allocated.get(resource, 0.0), beyond, lent, weight=weight))
    state = clean(status.get("state"), 40)
    parent = clean(spec.get("parent"), 253)
    return Queue(
        key=volcano_key(metadata.get("name")),
        controller=Controller.VOLCANO,
        kind="Queue",
        name=clean(metadata.get("name"), 253),
        parent=volcano_key(parent) if parent != ROOT else "",
        is_strict=spec.get("dequeueStrategy") == "fifo",
        stopped="" if state in VOLCANO_OPEN else f"its state is {state}",
        shares=tuple(shares),
        pending=whole_or_none(status.get("pending")),
        admitted=whole_or_none(status.get("running")),
        priority=whole(spec.get("priority")),
    )


def read_elastic_quota(raw: Mapping[str, Any]) -> Queue:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    least, most = amounts(child(spec, "min")), amounts(child(spec, "max"))
    used = amounts(child(raw, "status", "used"))
    shares = []
    for resource in dict.fromkeys((*least, *most)):
        quota = least.get(resource, 0.0)
        beyond = max(0.0, most[resource] - quota) if resource in most else None
        shares.append(Share("", resource, quota, used.get(resource, 0.0), beyond))
    return _of_namespace(metadata, Controller.SCHEDULER_PLUGINS, "ElasticQuota", shares)


def read_resource_quota(raw: Mapping[str, Any]) -> Queue:
    """A queue without shares where it bounds no devices."""
    metadata, status = child(raw, "metadata"), child(raw, "status")
    hard = child(status, "hard") or child(raw, "spec", "hard")
    used = child(status, "used")
    shares = []
    for key, value in hard.items():
        resource = clean(key, 320).removeprefix(REQUESTS)
        if not is_device_resource(resource) or resource.startswith(LIMITS):
            continue
        quota = amount_of(value, resource)
        if quota is not None:
            shares.append(Share("", resource, quota, amount_of(used.get(key), resource) or 0.0, 0.0))
    return _of_namespace(metadata, Controller.KUBERNETES, "ResourceQuota", shares)


def _of_namespace(
    metadata: Mapping[str, Any], controller: Controller, kind: str, shares: Iterable[Share]
) -> Queue:
    namespace, name = clean(metadata.get("namespace"), 253), clean(metadata.get("name"), 253)
    return Queue(
        key=f"{controller}/{namespace}/{name}",
        controller=controller,
        kind=kind,
        name=name,
        namespace=namespace,
        shares=tuple(shares),
        namespaces=(namespace,),
    )
