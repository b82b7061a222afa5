"""Small readings of raw API objects that every controller needs. No state, no calls."""

from __future__ import annotations

from typing import Any

from apps.simulator.client import Resource
from apps.simulator.controllers.pace import now, to_text

Json = dict[str, Any]


def key_of(thing: Json) -> str:
    meta = thing["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]


def uid_of(thing: Json) -> str:
    return thing["metadata"]["uid"]


def labels_of(thing: Json) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def annotations_of(thing: Json) -> dict[str, str]:
    return thing["metadata"].get("annotations") or {}


def controller_of(thing: Json) -> Json | None:
    """The owner reference with controller true."""
    for reference in thing["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return reference
    return None


def reference_to(owner: Json, resource: Resource) -> Json:
    meta = owner["metadata"]
    return {
        "apiVersion": resource.api,
        "kind": resource.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def phase_of(pod: Json) -> str:
    return (pod.get("status") or {}).get("phase", "Pending")


def is_terminal(pod: Json) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def is_running(pod: Json) -> bool:
    """Whether its first container runs, ready or not."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return not is_terminal(pod) and bool(statuses) and "running" in statuses[0]["state"]


def is_terminating(thing: Json) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))


def is_active(pod: Json) -> bool:
    return not is_terminal(pod) and not is_terminating(pod)


def node_of(pod: Json) -> str:
    return pod["spec"].get("nodeName") or ""


def condition_of(thing: Json, kind: str) -> Json | None:
    for condition in (thing.get("status") or {}).get("conditions") or []:
        if condition["type"] == kind:
            return condition
    return None


def is_true(thing: Json, kind: str) -> bool:
    condition = condition_of(thing, kind)
    return bool(condition and condition["status"] == "True")


def is_ready(pod: Json) -> bool:
    return is_true(pod, "Ready")


def make_condition(kind: str, status: str, reason: str = "", message: str = "") -> Json:
    condition: Json = {"type": kind, "status": status, "lastTransitionTime": to_text(now())}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def with_condition(conditions: list[Json] | None, new: Json) -> list[Json]:
    """The list with `new` in place of its type; the transition time stays when the status does."""
    result = [dict(each) for each in conditions or [] if each["type"] != new["type"]]
    old = next((each for each in conditions or [] if each["type"] == new["type"]), None)
    if old and old["status"] == new["status"] and "lastTransitionTime" in old:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*result, new]
