"""Gangs: the pod groups of four schedulers, and how a pod says that it belongs to one.

Four kinds of one name: the coscheduling plugin's, Volcano's, KAI's and Kubernetes' own. A pod names its group
by a label or an annotation of its scheduler, or in its spec, so two groups named alike are told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from apps.kube.gateway import (
    ALL_POD_GROUPS,
    KAI_POD_GROUPS,
    NATIVE_POD_GROUPS,
    NATIVE_WORKLOADS,
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    Kind,
)
from apps.kube.translate.values import child, clean, entries, whole
from apps.planner.inventory import Gang, Pod, Workload

LABELS = {
    "scheduling.x-k8s.io/pod-group": POD_GROUPS.group,
    "pod-group.scheduling.sigs.k8s.io": POD_GROUPS.group,
}
ANNOTATIONS = {
    "pod-group-name": KAI_POD_GROUPS.group,
    "scheduling.k8s.io/group-name": VOLCANO_POD_GROUPS.group,
    "scheduling.volcano.sh/group-name": VOLCANO_POD_GROUPS.group,
    "gang.scheduling.koordinator.sh/name": "gang.scheduling.koordinator.sh",
}
MOST_SUBGROUPS = 100
MOST_REFUSALS = 10
PREEMPTIBILITY = {"preemptible": True, "non-preemptible": False}
Renamed = Mapping[tuple[str, str], str]
"""(API group, "namespace/name") -> key of the gang, for those whose plain key another gang has."""


def group_named_by(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> tuple[str, str]:
    """(name of the pod's group, API group of its object), ("", "") without one."""
    for named, keys in ((labels, LABELS), (annotations, ANNOTATIONS)):
        for key, api_group in keys.items():
            name = named.get(key)
            if isinstance(name, str) and name:
                return clean(name, 253), api_group
    return "", ""


def native_group(spec: Mapping[str, Any]) -> tuple[str, str]:
    """Of Kubernetes' own: by `schedulingGroup` from 1.36 on, by `workloadRef` in 1.35."""
    named = clean(child(spec, "schedulingGroup").get("podGroupName"), 253)
    if not named:
        workload = child(spec, "workloadRef")
        parts = (workload.get(key) for key in ("name", "podGroup", "podGroupReplicaKey"))
        named = "-".join(filter(None, (clean(part, 253) for part in parts)))
    return (named, NATIVE_POD_GROUPS.group) if named else ("", "")


def read_native_workload(raw: Mapping[str, Any]) -> tuple[Gang, ...]:
    """The groups of a Workload of 1.35. Where they have replicas, each is a gang of its own, which no object
    tells; its pods do."""
    metadata = child(raw, "metadata")
    space, name = clean(metadata.get("namespace"), 253), clean(metadata.get("name"), 253)
    return tuple(
        Gang(
            key=f"{space}/{name}-{clean(one.get('name'), 253)}",
            min_members=max(whole(child(one, "policy", "gang").get("minCount"), 1), 1),
            kind="Workload",
            api_version=NATIVE_WORKLOADS.api_version,
        )
        for one in entries(child(raw, "spec"), "podGroups")[:MOST_SUBGROUPS]
    )


def read_pod_group(raw: Mapping[str, Any], kind: Kind = POD_GROUPS) -> Gang:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    subgroups = tuple(
        (clean(one.get("name"), 253), max(whole(one.get("minMember"), 1), 1))
        for one in entries(spec, "subGroups")[:MOST_SUBGROUPS]
    )
    own = child(spec, "schedulingPolicy", "gang").get("minCount") if kind == NATIVE_POD_GROUPS else None
    least = whole(own or spec.get("minMember"), sum(least for _name, least in subgroups) or 1)
    return Gang(
        key=f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}",
        min_members=max(least, 1),
        api_version=kind.api_version,
        subgroups=subgroups,
        phase=clean(child(raw, "status").get("phase"), 60),
        queue=clean(spec.get("queue"), 253),
        refusals=tuple(_refusals(child(raw, "status"))),
        preemptible=PREEMPTIBILITY.get(clean(spec.get("preemptibility"), 40)),
    )


def _refusals(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """KAI's reasons stand in the condition's list, and in older versions in the condition itself."""
    for condition in entries(status, "schedulingConditions")[:MOST_REFUSALS]:
        if condition.get("status", "True") != "True":
            continue
        told = entries(condition, "reasons") or [condition]
        for one in told[:MOST_REFUSALS]:
            yield clean(one.get("reason"), 100), clean(one.get("message"), 1000)


def tell_apart(gangs: Iterable[Gang]) -> tuple[dict[str, Gang], Renamed]:
    """Gangs by their keys. Of two named alike the one of the earlier API keeps the plain key."""
    order = {kind.api_version: place for place, kind in enumerate(ALL_POD_GROUPS)}
    found: dict[str, Gang] = {}
    renamed: dict[tuple[str, str], str] = {}
    for gang in sorted(gangs, key=lambda gang: order.get(gang.api_version, len(order))):
        api_group = gang.api_version.partition("/")[0]
        if gang.key in found and found[gang.key].api_version != gang.api_version:
            renamed[api_group, gang.key] = f"{gang.key}@{api_group}"
            gang = replace(gang, key=f"{gang.key}@{api_group}")
        found[gang.key] = gang
    return found, renamed


def with_unseen_gangs(
    gangs: Mapping[str, Gang], pods: Mapping[str, Pod], workloads: Mapping[str, Workload]
) -> dict[str, Gang]:
    """Of a gang without an object, a Job's parallelism counts, else all the pods that name it."""
    found = dict(gangs)
    members = Counter(pod.gang for pod in pods.values() if pod.gang)
    for pod in pods.values():
        if pod.gang and pod.gang not in found:
            job = workloads.get(pod.workload)
            is_job = job is not None and pod.gang == f"{job.namespace}/{job.name}"
            wanted = (job.replicas or 1) if job and is_job else members[pod.gang]
            found[pod.gang] = Gang(pod.gang, wanted, kind="Job" if is_job else "unknown")
    return found
