"""Reads an AdmissionReview (admission.k8s.io/v1) and writes its answer. Pure.

Whatever does not look exactly as expected is let through unchanged: a pod must never fail because of us.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from apps.executions.names import GATE, HELD, HOSTNAME, MIGRATION

Json = dict[str, Any]


@dataclass(frozen=True)
class NewPod:
    """A pod that could be gated. name: "" where the API server has not chosen it yet. has_hostname: its own
    selector names a host already."""

    admission_uid: str
    name: str
    owner_uid: str
    has_gates: bool
    has_annotations: bool
    has_selector: bool = False
    has_hostname: bool = False
    has_tolerations: bool = False


@dataclass(frozen=True)
class Taken:
    """The admission that a pod took. steering: what marks the pod. hostname, held: where it may be pinned at
    once, and the value of the taint that keeps that node; "" where it is gated."""

    steering: str
    hostname: str = ""
    held: str = ""


def review_uid(review: Any) -> str:
    request = review.get("request") if isinstance(review, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) else ""


def read_new_pod(review: Any) -> NewPod | None:
    """None for anything that is not to be gated: another operation or kind, a dry run, a pod that has a
    node, that some steering has already, or that nobody would make again."""
    try:
        request = review["request"]
        pod = request["object"]
        metadata, spec = pod["metadata"], pod["spec"]
        if request["operation"] != "CREATE" or request["kind"]["kind"] != "Pod" or request.get("dryRun"):
            return None
        annotations = metadata.get("annotations") or {}
        if request.get("subResource") or spec.get("nodeName") or MIGRATION in annotations:
            return None
        owners = metadata.get("ownerReferences") or []
        owner = next((one["uid"] for one in owners if one.get("controller") is True), "")
        name = metadata.get("name") or ""
        selector = spec.get("nodeSelector") or {}
        found = NewPod(
            request["uid"],
            name,
            owner,
            bool(spec.get("schedulingGates")),
            bool(annotations),
            bool(selector),
            HOSTNAME in selector,
            bool(spec.get("tolerations")),
        )
    except (KeyError, TypeError, AttributeError):
        return None
    texts = (found.admission_uid, found.name, found.owner_uid)
    is_whole = all(isinstance(text, str) for text in texts) and found.admission_uid and found.owner_uid
    return found if is_whole else None


def patch_for(pod: NewPod, taken: Taken) -> list[Json]:
    if taken.hostname and not pod.has_hostname:
        return pin_patch(pod, taken)
    return gate_patch(pod, taken.steering)


def pin_patch(pod: NewPod, taken: Taken) -> list[Json]:
    """JSON patch that pins the pod and lets it onto the kept node; nothing that is there is touched."""
    toleration = {"key": HELD, "operator": "Equal", "value": taken.held, "effect": "NoSchedule"}
    return [
        _add_key("/spec/nodeSelector", HOSTNAME, taken.hostname, is_there=pod.has_selector),
        {"op": "add", "path": "/spec/tolerations/-", "value": toleration}
        if pod.has_tolerations
        else {"op": "add", "path": "/spec/tolerations", "value": [toleration]},
        _add_key("/metadata/annotations", MIGRATION, taken.steering, is_there=pod.has_annotations),
    ]


def _add_key(path: str, key: str, value: str, *, is_there: bool) -> Json:
    """is_there: the map exists already."""
    if not is_there:
        return {"op": "add", "path": path, "value": {key: value}}
    escaped = key.replace("~", "~0").replace("/", "~1")
    return {"op": "add", "path": f"{path}/{escaped}", "value": value}


def gate_patch(pod: NewPod, steering: str) -> list[Json]:
    """JSON patch that adds our gate and says for which steering; nothing that is there is touched."""
    gate = {"name": GATE}
    gates: Json = (
        {"op": "add", "path": "/spec/schedulingGates/-", "value": gate}
        if pod.has_gates
        else {"op": "add", "path": "/spec/schedulingGates", "value": [gate]}
    )
    mark = _add_key("/metadata/annotations", MIGRATION, steering, is_there=pod.has_annotations)
    return [gates, mark]


def answer(uid: str, patch: list[Json] | None = None) -> Json:
    """Always allowed; with a patch or unchanged."""
    response: Json = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
