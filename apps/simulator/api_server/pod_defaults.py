"""What the server fills in on a new Pod, and what a Pod's stored conditions always carry.

Refusals are in pod_rules and admission.
"""

from __future__ import annotations

import secrets
from typing import Any

from apps.simulator.api_server.calls import now_text

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


def random_suffix() -> str:
    return "".join(secrets.choice(LETTERS) for _ in range(5))


def default_pod(spec: dict[str, Any]) -> None:
    """Fields that a stored pod spec always has."""
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        _default_container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if "serviceAccountName" in spec or "serviceAccount" in spec:
        name = spec.get("serviceAccountName") or spec.get("serviceAccount")
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _default_container(container: dict[str, Any]) -> None:
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    pulls_always = "@" not in image and tag in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if pulls_always else "IfNotPresent")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")


def add_default_tolerations(spec: dict[str, Any]) -> None:
    """Five minutes on a node that is not ready or not reachable, unless the pod says otherwise."""
    tolerations = list(spec.get("tolerations", ()))
    for key in TOLERATED:
        told = any(
            t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute")
            for t in tolerations
        )
        if not told:
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    if tolerations:
        spec["tolerations"] = tolerations


def mount_token(spec: dict[str, Any]) -> None:
    """The projected service account token that every container gets."""
    name = f"kube-api-access-{random_suffix()}"
    mounted = False
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == TOKEN_PATH for mount in mounts):
            mounts.append({"name": name, "readOnly": True, "mountPath": TOKEN_PATH})
            mounted = True
    if not mounted:
        return
    namespace_field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace_field}]}},
    ]
    volume = {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
    spec["volumes"] = [*spec.get("volumes", ()), volume]


def fresh_status(spec: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now_text(),
                "reason": "SchedulingGated",
                "message": GATED_MESSAGE,
            }
        ]
    status["qosClass"] = qos_class(spec)
    return status


def qos_class(spec: dict[str, Any]) -> str:
    """Only cpu and memory count."""
    guaranteed, burstable = True, False
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in ("cpu", "memory"):
            burstable = burstable or name in requests or name in limits
            guaranteed = guaranteed and name in limits and requests.get(name) == limits[name]
    if guaranteed and burstable:
        return "Guaranteed"
    return "Burstable" if burstable else "BestEffort"


def set_condition(status: dict[str, Any], condition: dict[str, Any]) -> None:
    """Puts a condition in the place of the one of its type; its transition time moves with its status."""
    conditions = status.setdefault("conditions", [])
    for index, known in enumerate(conditions):
        if known.get("type") == condition["type"]:
            if known.get("status") == condition["status"]:
                condition = {**condition, "lastTransitionTime": known.get("lastTransitionTime")}
            conditions[index] = condition
            return
    conditions.append(condition)
