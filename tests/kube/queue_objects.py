"""Queue objects in the real format, with the fields that a test cares about."""

from __future__ import annotations

from typing import Any

GPU = "nvidia.com/gpu"


def cluster_queue(name: str = "team-a", *, api: str = "v1beta1", **changes: Any) -> dict[str, Any]:
    """changes: quota, borrowing, lending, used, flavor, cohort, strategy, stop, active."""
    flavor = changes.get("flavor", "default")
    share = {"name": GPU, "nominalQuota": changes.get("quota", 112)}
    share |= {"borrowingLimit": changes["borrowing"]} if "borrowing" in changes else {}
    share |= {"lendingLimit": changes["lending"]} if "lending" in changes else {}
    used = [{"name": flavor, "resources": [{"name": GPU, "total": changes.get("used", 0)}]}]
    spec: dict[str, Any] = {
        "resourceGroups": [
            {"coveredResources": [GPU], "flavors": [{"name": flavor, "resources": [share]}]},
        ],
        "queueingStrategy": changes.get("strategy", "BestEffortFIFO"),
        "stopPolicy": changes.get("stop", "None"),
    }
    if "cohort" in changes:
        spec["cohort" if api == "v1beta1" else "cohortName"] = changes["cohort"]
    active = {"type": "Active", "status": "True", "reason": "Ready", **changes.get("active", {})}
    return {
        "apiVersion": f"kueue.x-k8s.io/{api}",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "uid": f"uid-cq-{name}", "resourceVersion": "7"},
        "spec": spec,
        "status": {"conditions": [active], "flavorsReservation": used, "flavorsUsage": used},
    }


def local_queue(name: str = "train", *, namespace: str = "team-a", of: str = "team-a") -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-lq-{name}", "resourceVersion": "7"},
        "spec": {"clusterQueue": of},
    }


def flavor(name: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ResourceFlavor",
        "metadata": {"name": name, "uid": f"uid-rf-{name}", "resourceVersion": "7"},
        "spec": spec,
    }


def kueue_workload(name: str = "llama", *, pods: int = 3, gpus: int = 8, **changes: Any) -> dict[str, Any]:
    """changes: namespace, queue, owner, priority, created, conditions, active, admitted_by, spec, status."""
    limits = {GPU: str(gpus), "cpu": "4"}
    container = {
        "name": "main",
        "image": "app",
        "env": [{"name": "KEY", "value": "hidden"}],
        "resources": {"requests": limits, "limits": limits},
    }
    status: dict[str, Any] = {"conditions": changes.get("conditions", [])}
    if "admitted_by" in changes:
        status["conditions"] = [
            {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"},
            {"type": "Admitted", "status": "True", "reason": "Admitted"},
        ]
        usage = {GPU: str(pods * gpus)}
        assigned = {"name": "main", "flavors": {GPU: "default"}, "resourceUsage": usage, "count": pods}
        status["admission"] = {"clusterQueue": changes["admitted_by"], "podSetAssignments": [assigned]}
    owner = changes.get("owner", ("Job", name, f"uid-{name}"))
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}",
            "namespace": changes.get("namespace", "team-a"),
            "uid": f"uid-wl-{name}",
            "resourceVersion": "7",
            "creationTimestamp": changes.get("created", "2026-01-02T00:00:00Z"),
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": owner[0], "name": owner[1], "uid": owner[2]}
                | {"controller": True}
            ],
        },
        "spec": {
            "queueName": changes.get("queue", "train"),
            "priority": changes.get("priority", 0),
            "active": changes.get("active", True),
            "podSets": [
                {
                    "name": "main",
                    "count": pods,
                    "template": {
                        "metadata": {},
                        "spec": {"containers": [container]} | changes.get("spec", {}),
                    },
                }
            ],
        },
        "status": status | changes.get("status", {}),
    }


def kai_queue(name: str = "research", *, parent: str = "", used: object = 0, **gpu: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-kq-{name}", "resourceVersion": "7"},
        "spec": {"parentQueue": parent, "resources": {"gpu": gpu}},
        "status": {"allocated": {GPU: used}},
    }


def volcano_queue(name: str = "batch", *, used: int = 0, state: str = "Open", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-vq-{name}", "resourceVersion": "7"},
        "spec": {"weight": 1, **spec},
        "status": {"state": state, "allocated": {GPU: str(used)}, "pending": 1, "running": 2},
    }
