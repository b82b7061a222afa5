"""Small API objects in the real format, with the fields that a test cares about."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(1)


def node(name: str = "node-a", *, gpus: int = 8, **changes: Any) -> dict[str, Any]:
    """changes: labels, annotations, spec, capacity, allocatable, ready, product."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    capacity.update(changes.get("capacity", {}))
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": changes.get("product", "A100-SXM4-80GB"),
    }
    labels.update(changes.get("labels", {}))
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    ready.update(changes.get("ready", {}))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(next(_numbers)),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": changes.get("annotations", {}),
        },
        "spec": changes.get("spec", {}),
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, **changes.get("allocatable", {})},
            "conditions": [ready],
        },
    }


def pod(name: str = "pod-a", *, gpus: int = 1, on: str = "", **changes: Any) -> dict[str, Any]:
    """changes: namespace, labels, annotations, owner (kind, name), spec, status, metadata."""
    owner = changes.get("owner", ("ReplicaSet", "rs-a"))
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    metadata = {
        "name": name,
        "namespace": changes.get("namespace", "team-a"),
        "uid": f"uid-{name}",
        "resourceVersion": str(next(_numbers)),
        "creationTimestamp": "2026-01-02T00:00:00Z",
        "labels": changes.get("labels", {}),
        "annotations": changes.get("annotations", {}),
        **changes.get("metadata", {}),
    }
    if owner:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner[0],
                "name": owner[1],
                "uid": f"uid-{owner[1]}",
                "controller": True,
            }
        ]
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "app", "resources": {"requests": limits, "limits": limits}}]
    }
    if on:
        spec["nodeName"] = on
    spec.update(changes.get("spec", {}))
    status = {"phase": "Running" if on else "Pending", **changes.get("status", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def owned(kind: str, name: str, *, namespace: str = "team-a", **changes: Any) -> dict[str, Any]:
    """A workload, budget or any other namespaced object. changes: api, annotations, owner, spec, status."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": str(next(_numbers)),
        "annotations": changes.get("annotations", {}),
        "generation": 1,
    }
    if owner := changes.get("owner"):
        metadata["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": owner[0],
                "name": owner[1],
                "uid": f"uid-{owner[1]}",
                "controller": True,
            }
        ]
    return {
        "apiVersion": changes.get("api", "apps/v1"),
        "kind": kind,
        "metadata": metadata,
        "spec": changes.get("spec", {}),
        "status": changes.get("status", {}),
    }


def namespace(name: str, **annotations: str) -> dict[str, Any]:
    keyed = {key.replace("__", "/"): value for key, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "annotations": keyed},
    }
