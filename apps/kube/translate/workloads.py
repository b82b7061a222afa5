"""Owners of pods and disruption budgets become the planner's types. Pod groups are read by `groups`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apps.kube.translate.placement import read_selector
from apps.kube.translate.pods import controller_of
from apps.kube.translate.protections import is_protected
from apps.kube.translate.values import child, clean, texts, whole, whole_or_none
from apps.planner.inventory import DisruptionBudget, Workload

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def read_workload(raw: Mapping[str, Any], kind: str) -> Workload:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    name = clean(metadata.get("name"), 253)
    is_job = kind == "Job"
    ready = status.get("ready") if is_job else status.get("numberReady", status.get("readyReplicas", 0))
    return Workload(
        uid=clean(metadata.get("uid"), 100),
        kind=kind,
        namespace=clean(metadata.get("namespace"), 253),
        name=name,
        parent=clean(controller_of(metadata).get("uid"), 100),
        display=clean(controller_of(metadata).get("name"), 253) or name,
        replicas=_replicas(kind, spec, status),
        ready_replicas=whole_or_none(ready),
        min_ready_seconds=whole(spec.get("minReadySeconds")),
        updating=_is_updating(kind, metadata, spec, status),
        protected=is_protected(texts(child(metadata, "annotations"))),
        backoff_limit=whole_or_none(spec.get("backoffLimit", 6)) if is_job else None,
        failed_pods=whole(status.get("failed")) if is_job else 0,
        queue=texts(child(metadata, "labels")).get(KUEUE_QUEUE, ""),
        terminating=metadata.get("deletionTimestamp") is not None,
    )


def _replicas(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> int | None:
    if kind == "Job":
        return whole_or_none(spec.get("parallelism", 1))
    if kind == "DaemonSet":
        return whole_or_none(status.get("desiredNumberScheduled"))
    return whole_or_none(spec.get("replicas", 1))


def _is_updating(
    kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> bool:
    if kind not in ("Deployment", "StatefulSet", "DaemonSet"):
        return False
    if whole(status.get("observedGeneration")) < whole(metadata.get("generation")):
        return True
    if kind == "StatefulSet":
        return status.get("updateRevision") != status.get("currentRevision")
    if kind == "DaemonSet":
        return whole(status.get("updatedNumberScheduled")) < whole(status.get("desiredNumberScheduled"))
    updated = whole(status.get("updatedReplicas"))
    return updated < whole(spec.get("replicas"), 1) or whole(status.get("replicas")) > updated


def read_budget(raw: Mapping[str, Any]) -> DisruptionBudget:
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    return DisruptionBudget(
        namespace=clean(metadata.get("namespace"), 253),
        name=clean(metadata.get("name"), 253),
        uid=clean(metadata.get("uid"), 100),
        selector=read_selector(spec.get("selector")),
        disruptions_allowed=max(whole(status.get("disruptionsAllowed")), 0),
        current_healthy=whole(status.get("currentHealthy")),
        desired_healthy=whole(status.get("desiredHealthy")),
        expected_pods=whole(status.get("expectedPods")),
        observed=0 < whole(status.get("observedGeneration")) >= whole(metadata.get("generation"), 1),
        always_allow_unhealthy=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def update_with_parents(workloads: dict[str, Workload]) -> dict[str, Workload]:
    """A ReplicaSet is updating when its Deployment is."""
    updating = {uid for uid, workload in workloads.items() if workload.updating}
    return {
        uid: replace(workload, updating=True)
        if workload.parent in updating and not workload.updating
        else workload
        for uid, workload in workloads.items()
    }
