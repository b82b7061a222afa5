"""Owners of pods as a scene describes them, and the API objects made of that description.

Not here: nodes, devices, ages (builder).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.controllers.objects import is_ready
from apps.simulator.controllers.owners.job_rules import TRACKING
from apps.simulator.controllers.owners.pod_owner import hash_template

Json = dict[str, Any]

_API = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
_NODE_PROBLEMS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass
class Owner:
    """kind: Deployment, StatefulSet, DaemonSet or Job. made, child, pods are filled by the builder;
    child is a Deployment's ReplicaSet. pods in the order in which they were put."""

    kind: str
    namespace: str
    name: str
    template: Json
    age_days: float = 20
    annotations: dict[str, str] = field(default_factory=dict)
    made: Json = field(default_factory=dict)
    child: Json = field(default_factory=dict)
    pods: list[Json] = field(default_factory=list)

    @property
    def api(self) -> str:
        return _API[self.kind]


def make_template(
    name: str,
    *,
    image: str = "",
    gpus: int = 0,
    resource: str = "nvidia.com/gpu",
    cpu: int = 0,
    memory_gib: int = 0,
    priority: str = "normal",
    restart: str = "Always",
    selector: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    grace: int = 30,
    stays: bool = False,
) -> Json:
    """A pod template with one container. CPU and memory default to 8 cores and 64 GiB per GPU.
    stays: tolerates the trouble of its node for ever."""
    image = image or f"registry.example/{name}:1"
    requests = {"cpu": str(cpu or gpus * 8 or 1), "memory": f"{memory_gib or gpus * 64 or 2}Gi"}
    resources: Json = {"requests": requests, "limits": {"memory": requests["memory"]}}
    if gpus:
        resources["limits"][resource] = str(gpus)
        requests[resource] = str(gpus)
    spec: Json = {
        "containers": [{"name": "main", "image": image, "resources": resources}],
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": grace,
        "priorityClassName": priority,
    }
    if selector:
        spec["nodeSelector"] = selector
    if stays:
        spec["tolerations"] = [
            {"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _NODE_PROBLEMS
        ]
    meta: Json = {"labels": {"app": name, **(labels or {})}}
    if annotations:
        meta["annotations"] = annotations
    return {"metadata": meta, "spec": spec}


def owner_object(owner: Owner) -> Json:
    count = len(owner.pods)
    template = owner.template
    labels = {"app": owner.name}
    spec: Json = {"selector": {"matchLabels": labels}, "template": template}
    if owner.kind == "Deployment":
        spec |= {"replicas": count}
    elif owner.kind == "StatefulSet":
        spec |= {"replicas": count, "serviceName": owner.name, "podManagementPolicy": "Parallel"}
    elif owner.kind == "Job":
        marked = deepcopy(template)
        marked["metadata"]["labels"] |= _job_labels(owner)
        uid = owner.made["metadata"]["uid"]
        spec = {
            "parallelism": count,
            "completions": count,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": marked,
        }
    meta = {**owner.made["metadata"], "labels": labels, "generation": 1}
    if owner.annotations:
        meta["annotations"] = dict(owner.annotations)
    return {**owner.made, "metadata": meta, "spec": spec}


def replica_set_of(owner: Owner) -> tuple[str, Json]:
    """(name, metadata and spec) of a Deployment's only ReplicaSet."""
    mark = hash_template(owner.template)
    template = deepcopy(owner.template)
    template["metadata"]["labels"]["pod-template-hash"] = mark
    labels = template["metadata"]["labels"]
    meta = {
        "labels": dict(labels),
        "annotations": {"deployment.kubernetes.io/revision": "1"},
        "ownerReferences": [_reference(owner.made)],
        "generation": 1,
    }
    selector = {"matchLabels": {"app": owner.name, "pod-template-hash": mark}}
    return f"{owner.name}-{mark}", {"metadata": meta, "spec": {"selector": selector, "template": template}}


def pod_body(owner: Owner, number: int, suffix: str, classes: dict[str, int]) -> Json:
    """The pod that the owner's controller would have made."""
    parent = owner.child or owner.made
    template = deepcopy(owner.child["spec"]["template"] if owner.child else owner.template)
    meta = template["metadata"] | {"ownerReferences": [_reference(parent)]}
    name = f"{parent['metadata']['name']}-{suffix}"
    if owner.kind == "StatefulSet":
        name = f"{owner.name}-{number}"
        meta["labels"] |= {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(number),
        }
    elif owner.kind == "Job":
        meta["labels"] |= _job_labels(owner)
        meta["finalizers"] = [TRACKING]
    if owner.kind != "StatefulSet":
        meta["generateName"] = f"{parent['metadata']['name']}-"
    spec = template["spec"]
    spec["priority"] = classes.get(spec["priorityClassName"], 0)
    if spec["priorityClassName"] == "training":
        spec["preemptionPolicy"] = "Never"
    spec["tolerations"] = _with_default_tolerations(owner, spec.get("tolerations") or [])
    return {"metadata": {**meta, "name": name}, "spec": spec}


def with_status(owner: Owner, thing: Json, kind: str) -> Json:
    """The object with the counts its controller would write."""
    count = len(owner.pods)
    ready = sum(1 for pod in owner.pods if is_ready(pod))
    if kind == "ReplicaSet":
        thing = {**thing, "spec": {"replicas": count, **thing["spec"]}}
    if kind == "Job":
        born = thing["metadata"]["creationTimestamp"]
        return {**thing, "status": {"active": count, "ready": ready, "startTime": born}}
    if kind == "DaemonSet":
        names = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled")
        status: Json = dict.fromkeys(names, count)
        status |= {"numberReady": ready, "numberAvailable": ready, "numberMisscheduled": 0}
    else:
        status = {"replicas": count, "readyReplicas": ready, "availableReplicas": ready}
    if kind == "ReplicaSet":
        status["fullyLabeledReplicas"] = count
    if kind in ("Deployment", "StatefulSet"):
        status["updatedReplicas"] = count
    if kind == "Deployment":
        status["conditions"] = _deployment_conditions(thing["metadata"]["creationTimestamp"])
    return {**thing, "status": {**status, "observedGeneration": 1}}


def _deployment_conditions(since: str) -> list[Json]:
    words = (
        ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        ("Progressing", "NewReplicaSetAvailable", "ReplicaSet is progressing."),
    )
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
        for kind, reason, message in words
    ]


def count_budget(budget: Json, pods: list[Json]) -> Json:
    """The budget with the status its controller would write."""
    space, wanted = budget["metadata"]["namespace"], budget["spec"]["selector"]["matchLabels"]
    mine = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == space and wanted.items() <= pod["metadata"]["labels"].items()
    ]
    expected = len(mine)
    desired = budget["spec"].get("minAvailable", expected - budget["spec"].get("maxUnavailable", 0))
    allowed = max(0, expected - desired)
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": budget["metadata"]["creationTimestamp"],
    }
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": expected,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [condition],
    }
    return {**budget, "status": status}


def _job_labels(owner: Owner) -> dict[str, str]:
    uid = owner.made["metadata"]["uid"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": owner.name,
        "controller-uid": uid,
        "job-name": owner.name,
    }


def _reference(parent: Json) -> Json:
    meta = parent["metadata"]
    return {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _with_default_tolerations(owner: Owner, own: list[Json]) -> list[Json]:
    keys = {each.get("key") for each in own}
    limits: Json = {} if owner.kind == "DaemonSet" else {"tolerationSeconds": 300}
    more = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", **limits}
        for key in _NODE_PROBLEMS
        if key not in keys
    ]
    return [*own, *more]
