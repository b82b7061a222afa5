"""Kueue's objects become the planner's queues: ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload.

Every served version is read: the name of a queue's cohort is `cohort` up to v1beta1 and `cohortName` after.
Not in here: queues of other controllers, and the joining of what refers to each other (queues).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.kube.translate.placement import read_tolerations
from apps.kube.translate.pods import Surroundings, read_pod
from apps.kube.translate.values import (
    amount_of,
    amounts,
    brief,
    child,
    clean,
    entries,
    seconds_of,
    texts,
    whole,
    whole_or_none,
)
from apps.planner.inventory import Taint
from apps.planner.queues import (
    Admission,
    Controller,
    Entrance,
    Flavor,
    PodSet,
    Queue,
    QueuedWorkload,
    Share,
)

MOST_SHARES = 4096
MOST_POD_SETS = 64
MOST_OWNERS = 1000
STRICT = "StrictFIFO"


def queue_key(name: object) -> str:
    found = clean(name, 253)
    return f"{Controller.KUEUE}/{found}" if found else ""


def cohort_key(name: object) -> str:
    """A cohort may be named like a queue."""
    found = clean(name, 253)
    return f"{Controller.KUEUE}/cohort/{found}" if found else ""


def read_cluster_queue(raw: Mapping[str, Any]) -> Queue:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    warnings: list[str] = []
    cohort = cohort_key(spec.get("cohortName") or spec.get("cohort"))
    used = _used(status)
    return Queue(
        key=queue_key(metadata.get("name")),
        controller=Controller.KUEUE,
        kind="ClusterQueue",
        name=clean(metadata.get("name"), 253),
        parent=cohort,
        is_strict=spec.get("queueingStrategy") == STRICT,
        stopped=_stopped(spec) or _inactive(status),
        shares=tuple(_shares(spec, used, warnings, can_borrow=bool(cohort))),
        pending=whole_or_none(status.get("pendingWorkloads")),
        admitted=whole_or_none(status.get("admittedWorkloads")),
        warnings=tuple(warnings[:20]),
    )


def read_cohort(raw: Mapping[str, Any]) -> Queue:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    warnings: list[str] = []
    parent = cohort_key(spec.get("parentName") or spec.get("parent"))
    return Queue(
        key=cohort_key(metadata.get("name")),
        controller=Controller.KUEUE,
        kind="Cohort",
        name=clean(metadata.get("name"), 253),
        parent=parent,
        shares=tuple(_shares(spec, {}, warnings, can_borrow=bool(parent))),
        warnings=tuple(warnings[:20]),
    )


def read_local_queue(raw: Mapping[str, Any]) -> Entrance:
    metadata, spec = child(raw, "metadata"), child(raw, "spec")
    return Entrance(
        key=_key(metadata),
        queue=queue_key(spec.get("clusterQueue")),
        stopped=_stopped(spec),
    )


def read_flavor(raw: Mapping[str, Any]) -> Flavor:
    spec = child(raw, "spec")
    taints = tuple(
        Taint(clean(one.get("key"), 320), clean(one.get("value"), 253), clean(one.get("effect"), 40))
        for one in entries(spec, "nodeTaints")
    )
    return Flavor(
        name=clean(child(raw, "metadata").get("name"), 253),
        labels=texts(child(spec, "nodeLabels"), 253),
        taints=taints,
        tolerations=read_tolerations(spec),
    )


def read_queued_workload(raw: Mapping[str, Any]) -> QueuedWorkload:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    owners = entries(metadata, "ownerReferences")[:MOST_OWNERS]
    first = next((one for one in owners if one.get("controller") is True), owners[0] if owners else {})
    state, reason, message = _state(spec, status)
    evicted = _condition(status, "Evicted")
    return QueuedWorkload(
        key=_key(metadata),
        uid=clean(metadata.get("uid"), 100),
        entrance=f"{clean(metadata.get('namespace'), 253)}/{clean(spec.get('queueName'), 253)}",
        queue=queue_key(child(status, "admission").get("clusterQueue")),
        owners=tuple(uid for one in owners if (uid := clean(one.get("uid"), 100))),
        owner_kind=clean(first.get("kind"), 100),
        owner_name=clean(first.get("name"), 253),
        priority=whole(spec.get("priority")),
        created_at=seconds_of(metadata.get("creationTimestamp")) or 0.0,
        pod_sets=tuple(_pod_sets(metadata, spec)),
        state=state,
        reason=reason,
        message=message,
        evicted=clean(evicted.get("reason"), 200) if evicted.get("status") == "True" else "",
        tried_again_at=seconds_of(child(status, "requeueState").get("requeueAt")),
        held=tuple(_held(status)),
        checks=tuple(
            clean(one.get("name"), 316)
            for one in entries(status, "admissionChecks")
            if one.get("state") != "Ready"
        ),
    )


def _shares(
    spec: Mapping[str, Any],
    used: Mapping[tuple[str, str], float],
    warnings: list[str],
    *,
    can_borrow: bool,
) -> Iterator[Share]:
    """Each resource of each flavor, in the order in which Kueue tries the flavors."""
    left = MOST_SHARES
    for group, found in enumerate(entries(spec, "resourceGroups")):
        for flavor in entries(found, "flavors"):
            for one in entries(flavor, "resources"):
                left -= 1
                if left < 0:
                    return
                name, resource = clean(flavor.get("name"), 253), clean(one.get("name"), 253)
                quota = amount_of(one.get("nominalQuota"), resource)
                if quota is None:
                    warnings.append(
                        f"its quota {brief(one.get('nominalQuota'))} of {resource} cannot be read"
                    )
                yield Share(
                    flavor=name,
                    resource=resource,
                    quota=quota or 0.0,
                    used=used.get((name, resource), 0.0),
                    most_borrowed=amount_of(one.get("borrowingLimit"), resource) if can_borrow else 0.0,
                    most_lent=amount_of(one.get("lendingLimit"), resource),
                    group=group,
                )


def _used(status: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """What is reserved, since a reservation holds its quota before it is admitted."""
    return {
        (clean(flavor.get("name"), 253), resource): amount
        for flavor in entries(status, "flavorsReservation")
        for one in entries(flavor, "resources")
        if (resource := clean(one.get("name"), 253))
        and (amount := amount_of(one.get("total"), resource)) is not None
    }


def _stopped(spec: Mapping[str, Any]) -> str:
    policy = clean(spec.get("stopPolicy"), 40)
    return f"its stopPolicy is {policy}" if policy not in ("", "None") else ""


def _inactive(status: Mapping[str, Any]) -> str:
    active = _condition(status, "Active")
    if active.get("status") != "False":
        return ""
    reason = clean(active.get("reason"), 100) or "no reason"
    return f"Kueue calls it inactive ({reason}: {_said(active.get('message'))})"


def _state(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[Admission, str, str]:
    """(how far, reason, message). Of one that waits, its QuotaReserved condition says why."""
    for kind, state in (
        ("Finished", Admission.FINISHED),
        ("Admitted", Admission.ADMITTED),
        ("QuotaReserved", Admission.RESERVED),
    ):
        found = _condition(status, kind)
        if found.get("status") == "True":
            return state, clean(found.get("reason"), 200), _said(found.get("message"))
    told = _condition(status, "QuotaReserved")
    state = Admission.INACTIVE if spec.get("active") is False else Admission.WAITING
    return state, clean(told.get("reason"), 200), _said(told.get("message"))


def _pod_sets(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[PodSet]:
    for one in entries(spec, "podSets")[:MOST_POD_SETS]:
        name, template = clean(one.get("name"), 63) or "main", child(one, "template")
        named = {
            **child(template, "metadata"),
            "uid": f"{clean(metadata.get('uid'), 100)}/{name}",
            "namespace": metadata.get("namespace"),
            "name": f"{clean(metadata.get('name'), 253)}-{name}",
            "creationTimestamp": metadata.get("creationTimestamp"),
        }
        pod_spec = {"priority": spec.get("priority"), **child(template, "spec")}
        pod = read_pod({"metadata": named, "spec": pod_spec}, Surroundings())
        yield PodSet(name, max(whole(one.get("count"), 1), 0), pod)


def _held(status: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for assigned in entries(child(status, "admission"), "podSetAssignments")[:MOST_POD_SETS]:
        flavors = texts(child(assigned, "flavors"), 253)
        for resource, amount in amounts(child(assigned, "resourceUsage")).items():
            yield flavors.get(resource, ""), resource, amount


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((one for one in entries(status, "conditions") if one.get("type") == kind), {})


def _said(message: object) -> str:
    return clean(message, 1000)


def _key(metadata: Mapping[str, Any]) -> str:
    return f"{clean(metadata.get('namespace'), 253)}/{clean(metadata.get('name'), 253)}"
