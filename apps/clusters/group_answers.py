"""Answers `read_dump` about pods that belong together: gangs of three schedulers, Ray clusters and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.kube.gateway import ALL_POD_GROUPS, Kind
from apps.kube.translate.groups import read_pod_group
from apps.kube.translate.unreadable import Raw, opened
from apps.kube.translate.values import child, whole_or_none
from apps.planner.inventory import Pod
from apps.planner.resources import counts_devices
from apps.planner.snapshot import Snapshot

TOGETHER = {
    "ray.io/cluster": "RayCluster",
    "leaderworkerset.sigs.k8s.io/name": "LeaderWorkerSet",
    "jobset.sigs.k8s.io/jobset-name": "JobSet",
}
"""Label -> what kind of company its value names."""
COUNTS = ("running", "scheduled", "pending", "succeeded", "failed")


def answer_groups(objects: Mapping[Kind, Iterable[Raw]], snapshot: Snapshot) -> dict[str, Any]:
    members: dict[str, list[Pod]] = {}
    companies: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in snapshot.pods.values():
        if pod.gang:
            members.setdefault(pod.gang, []).append(pod)
        for label, kind in TOGETHER.items():
            if pod.labels.get(label):
                companies.setdefault((kind, pod.namespace, pod.labels[label]), []).append(pod)
    status = _status_of(objects)
    return {
        "groups": [
            {
                "key": gang.key,
                "name": gang.key.partition("/")[2].partition("@")[0],
                "api_version": gang.api_version or None,
                "kind": gang.kind,
                "min": gang.min_members,
                "subgroups": [{"name": name, "min": least} for name, least in gang.subgroups],
                "phase": gang.phase or None,
                "queue": gang.queue or None,
                **status.get((gang.api_version, gang.key.partition("@")[0]), {}),
                **_counts(members.get(gang.key, ())),
            }
            for gang in snapshot.gangs.values()
        ],
        "companies": [
            {"kind": kind, "namespace": namespace, "group": name, **_counts(pods), **_head(pods)}
            for (kind, namespace, name), pods in sorted(companies.items())
        ],
    }


def _status_of(objects: Mapping[Kind, Iterable[Raw]]) -> dict[tuple[str, str], dict[str, int]]:
    """What the scheduler itself counts in each group."""
    found = {}
    for kind in ALL_POD_GROUPS:
        for raw in objects.get(kind, ()):
            group = opened(raw)
            told = {name: whole_or_none(child(group, "status").get(name)) for name in COUNTS}
            key = (kind.api_version, read_pod_group(group, kind).key)
            found[key] = {name: count for name, count in told.items() if count is not None}
    return found


def _counts(pods: Iterable[Pod]) -> dict[str, int]:
    alive = [pod for pod in pods if pod.phase not in ("Succeeded", "Failed")]
    return {
        "pods": len(alive),
        "gpus_running": sum(_gpus(pod) for pod in alive if pod.is_holding),
        "gpus_pending": sum(_gpus(pod) for pod in alive if not pod.is_holding),
    }


def _gpus(pod: Pod) -> int:
    return sum(amount for name, amount in pod.requests.items() if counts_devices(name))


def _head(pods: Iterable[Pod]) -> dict[str, str]:
    heads = [pod.name for pod in pods if pod.labels.get("ray.io/node-type") == "head"]
    return {"head": heads[0], "note": "moving the head ends the whole cluster"} if heads else {}
