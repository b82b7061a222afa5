"""API objects and steps as the tests of decisions need them, in few words."""

import json

from apps.executions import names
from apps.executions.models import Step
from apps.executions.states import StepState

PARAMS = {
    "pod": "ml/lora-1",
    "namespace": "ml",
    "name": "lora-1",
    "uid": "uid-lora-1",
    "source": "node-a",
    "source_uid": "uid-node-a",
    "target": "node-b",
    "target_uid": "uid-node-b",
    "requests": {"cpu": 1000, "memory": 1024, "nvidia.com/gpu": 1},
    "devices": {"nvidia.com/gpu": 1},
    "priority": 0,
    "workload_uid": "uid-rs",
    "owner": "ReplicaSet ml/lora",
    "pod_name": "",
    "min_ready_seconds": 0,
    "hold": "hold-7-1",
    "steering": "steer-7-1",
    "webhook": "gpu-defrag-steer-7-1",
}


def step(kind, *, state=StepState.PENDING, move=1, wave=1, sent=(), seen=None, **params):
    known = PARAMS if move else {"node": "node-a", "node_uid": "uid-node-a"}
    observed = {"sent": list(sent), "seen": seen or {}}
    return Step(
        kind=kind,
        state=state,
        move=move,
        wave=wave,
        params={**known, **params},
        observed=observed,
        target="x",
    )


def node(name="node-a", *, uid="", cordoned=False, cordon=None, taints=(), ready=True, gpus="8"):
    annotations = {names.CORDON: json.dumps(cordon)} if cordon else {}
    return {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": "5",
            "annotations": annotations,
            "labels": {names.HOSTNAME: name},
        },
        "spec": {"unschedulable": cordoned, "taints": list(taints)},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": gpus},
        },
    }


def pod(name="lora-1", *, uid="", on="", gated=False, steering="", owner="uid-rs", **facts):
    annotations = {names.MIGRATION: steering} if steering else {}
    metadata = {
        "name": name,
        "namespace": "ml",
        "uid": uid or f"uid-{name}",
        "resourceVersion": "9",
        "creationTimestamp": facts.get("created", "2026-01-01T00:00:00Z"),
        "annotations": {**annotations, **facts.get("annotations", {})},
        "ownerReferences": [{"uid": owner, "controller": True, "kind": "ReplicaSet", "name": "lora"}],
        "labels": facts.get("labels", {}),
    }
    if facts.get("leaving"):
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    limits = {"nvidia.com/gpu": str(facts.get("gpus", 1))}
    requests = {"cpu": "1", "memory": "1024", **limits}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": requests}}]}
    if on:
        spec["nodeName"] = on
    if gated:
        spec["schedulingGates"] = [{"name": names.GATE}]
    spec |= facts.get("spec", {})
    status = {"phase": facts.get("phase", "Running" if on else "Pending")}
    if facts.get("ready"):
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    if facts.get("nominated"):
        status["nominatedNodeName"] = facts["nominated"]
    return {"metadata": metadata, "spec": spec, "status": status}


def hold(*, nominated="node-b", on="", owned="7"):
    found = pod("hold-7-1", on=on, nominated=nominated, labels={names.OWNED: owned}, owner="")
    found["metadata"]["namespace"] = "gpu-defrag"
    return found
