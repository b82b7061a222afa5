"""The other shapes of an answer: Table (what kubectl prints) and PartialObjectMetadata."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.store import Stored

Cells = Callable[[dict[str, Any]], list[Any]]


def wanted_shape(accept: str) -> str:
    """ "table", "partial" or "" by the first media type that asks for one."""
    for part in accept.split(","):
        if "as=Table" in part:
            return "table"
        if "as=PartialObjectMetadata" in part:
            return "partial"
        if part.strip().startswith("application/json") and "as=" not in part:
            return ""
    return ""


def as_partial(kind: Kind, stored: Stored) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.obj["metadata"],
    }


def as_table(kind: Kind, items: list[Stored], query: dict[str, str]) -> dict[str, Any]:
    names, cells = COLUMNS.get(kind.resource, (["Name", "Age"], _plain))
    include = query.get("includeObject", "Metadata")
    rows = []
    for stored in items:
        row: dict[str, Any] = {"cells": cells(stored.obj)}
        if include == "Object":
            row["object"] = {"kind": kind.kind, "apiVersion": kind.api_version, **stored.obj}
        elif include != "None":
            row["object"] = as_partial(kind, stored)
        rows.append(row)
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": 0,
        }
        for name in names
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def age(obj: dict[str, Any]) -> str:
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return "<unknown>"
    began = datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))
    seconds = max(0, int((datetime.datetime.now(datetime.UTC) - began).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 10_800:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172_800 else f"{seconds // 86_400}d"


def _plain(obj: dict[str, Any]) -> list[Any]:
    return [obj["metadata"]["name"], age(obj)]


def _node(node: dict[str, Any]) -> list[Any]:
    status, spec = node.get("status", {}), node.get("spec", {})
    ready = next((c for c in status.get("conditions", ()) if c.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = [k.removeprefix(prefix) for k in node["metadata"].get("labels", {}) if k.startswith(prefix)]
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses", ())}
    info = status.get("nodeInfo", {})
    return [
        node["metadata"]["name"],
        ",".join(words),
        ",".join(roles) or "<none>",
        age(node),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _pod(pod: dict[str, Any]) -> list[Any]:
    status, spec, metadata = pod.get("status", {}), pod.get("spec", {}), pod["metadata"]
    containers = status.get("containerStatuses", ())
    ready = sum(1 for c in containers if c.get("ready"))
    word = status.get("reason") or status.get("phase", "")
    if spec.get("schedulingGates"):
        word = "SchedulingGated"
    if metadata.get("deletionTimestamp"):
        word = "Terminating"
    return [
        metadata["name"],
        f"{ready}/{len(spec.get('containers', ()))}",
        word,
        str(sum(c.get("restartCount", 0) for c in containers)),
        age(pod),
        status.get("podIP", "<none>"),
        spec.get("nodeName", "<none>"),
        status.get("nominatedNodeName", "<none>"),
        "<none>",
    ]


def _budget(budget: dict[str, Any]) -> list[Any]:
    spec = budget.get("spec", {})
    minimum, maximum = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    allowed = budget.get("status", {}).get("disruptionsAllowed", 0)
    return [budget["metadata"]["name"], str(minimum), str(maximum), allowed, age(budget)]


def _deployment(workload: dict[str, Any]) -> list[Any]:
    status, wanted = workload.get("status", {}), workload.get("spec", {}).get("replicas", 1)
    return [
        workload["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{wanted}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(workload),
    ]


def _namespace(namespace: dict[str, Any]) -> list[Any]:
    return [namespace["metadata"]["name"], namespace.get("status", {}).get("phase", ""), age(namespace)]


COLUMNS: dict[str, tuple[list[str], Cells]] = {
    "nodes": (
        [
            "Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image",
            "Kernel-Version", "Container-Runtime",
        ],
        _node,
    ),
    "pods": (
        ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"],
        _pod,
    ),
    "poddisruptionbudgets.policy": (
        ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
        _budget,
    ),
    "deployments.apps": (["Name", "Ready", "Up-to-date", "Available", "Age"], _deployment),
    "namespaces": (["Name", "Status", "Age"], _namespace),
}  # fmt: skip
