"""The bodies of what this console writes into a cluster. Pure: the same arguments, the same body.

Why each looks as it does is told in docs/execution.md.
"""

from __future__ import annotations

import json
from typing import Any

from apps.executions import names
from apps.executions.mig_labels import CONFIG
from apps.executions.sightings import annotation, taints, tolerations, uid, version
from apps.planner.mig.nodes import STATE

Json = dict[str, Any]
BARRIERS = ("NoSchedule", "NoExecute")
STANDING = "console"
"""Owner label of what outlives an execution: our namespace and our priority classes."""


def console_namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {names.OWNED: STANDING}},
    }


def hold_class(priority: int) -> Json:
    """Ranks as high as the pod that it stands for, and never preempts."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": names.priority_class_name(priority), "labels": {names.OWNED: STANDING}},
        "value": priority,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "Room that GPU Defrag Console keeps for a pod that it moves.",
    }


def hold_pod(params: Json, *, owned: str, step_id: int, namespace: str, deadline: str = "") -> Json:
    """A pod that fits nowhere and never runs; only its nomination counts."""
    requests = quantities(params["requests"])
    devices = {key: value for key, value in requests.items() if "/" in key}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": params["hold"],
            "namespace": namespace,
            "labels": {names.OWNED: owned, names.HOLD: str(step_id)},
            "annotations": {"defrag.gpu.internal/for": params["pod"], names.DEADLINE: deadline},
        },
        "spec": {
            "priorityClassName": names.priority_class_name(params["priority"]),
            "nodeSelector": {names.NEVER: "true"},
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "hold",
                    "image": "paper-hold",
                    "resources": {"requests": requests, "limits": devices},
                }
            ],
        },
    }


def quantities(requests: Json) -> dict[str, str]:
    """As Kubernetes writes them; `requests` in the planner's units (CPU in millicores)."""
    return {
        key: f"{amount}m" if key == "cpu" else str(amount)
        for key, amount in sorted(requests.items())
        if amount
    }


def nomination(pod: Json, node: str) -> Json:
    return {"metadata": guard(pod), "status": {"nominatedNodeName": node}}


def pin_and_ungate(pod: Json, hostname: str, held: str = "") -> Json:
    """One strategic patch: narrow, and drop only our own gate. held: value of our taint that keeps the
    target, which the pod is to tolerate; the list of tolerations is replaced whole."""
    spec: Json = {"nodeSelector": {names.HOSTNAME: hostname}, **_drop_gate()}
    if held and not tolerates_held(pod, held):
        spec["tolerations"] = [*tolerations(pod), _toleration(held)]
    return {"metadata": guard(pod), "spec": spec}


def ungate(pod: Json) -> Json:
    return {"metadata": guard(pod), "spec": _drop_gate()}


def cordon_patch(node: Json, cordon: Json) -> Json:
    annotations = {names.CORDON: json.dumps(cordon, sort_keys=True)}
    labels = {names.OWNED: _owned(cordon)}
    return {
        "metadata": {**guard(node), "annotations": annotations, "labels": labels},
        "spec": {"unschedulable": True},
    }


def uncordon_patch(node: Json) -> Json:
    """Our label goes with the last of our traces."""
    is_last = not any(taint.get("key") == names.HELD for taint in taints(node))
    return {
        "metadata": {**guard(node), "annotations": {names.CORDON: None}, **_unlabel(is_last)},
        "spec": {"unschedulable": None},
    }


def mig_patch(node: Json, config: str) -> Json:
    """Sets the layout's name and clears the state: whatever state is seen later is an answer to this."""
    return {"metadata": {**guard(node), "labels": {CONFIG: config, STATE: None}}}


def held_taint(value: str) -> Json:
    return {"key": names.HELD, "value": value, "effect": "NoSchedule"}


def taint_patch(node: Json, value: str, holder: Json) -> Json:
    """The list is replaced whole by every kind of patch, so it is written whole. holder: execution, mark and
    deadline, for whoever finds the taint."""
    note = json.dumps({**holder, "value": value}, sort_keys=True)
    return {
        "metadata": {
            **guard(node),
            "annotations": {names.HELD_BY: note},
            "labels": {names.OWNED: _owned(holder)},
        },
        "spec": {"taints": [*taints(node), held_taint(value)]},
    }


def untaint_patch(node: Json, value: str) -> Json:
    kept = [taint for taint in taints(node) if not is_held(taint, value)]
    is_last = not annotation(node, names.CORDON) and all(one.get("key") != names.HELD for one in kept)
    return {
        "metadata": {**guard(node), "annotations": {names.HELD_BY: None}, **_unlabel(is_last)},
        "spec": {"taints": kept or None},
    }


def free_node_patch(node: Json) -> Json:
    """All of ours at once: cordon, taints, notes, label. A cordon without our note is somebody else's."""
    kept = [taint for taint in taints(node) if taint.get("key") != names.HELD]
    spec: Json = {"taints": kept or None} if len(kept) < len(taints(node)) else {}
    if annotation(node, names.CORDON):
        spec["unschedulable"] = None
    notes = {names.CORDON: None, names.HELD_BY: None}
    return {"metadata": {**guard(node), "annotations": notes, **_unlabel(True)}, "spec": spec}


def is_held(taint: Json, value: str) -> bool:
    return taint.get("key") == names.HELD and taint.get("value") == value


def keeps_out(node: Json, value: str) -> bool:
    """Our taint is on it and is a barrier still: one whose effect somebody made PreferNoSchedule is none."""
    return any(is_held(one, value) and one.get("effect") in BARRIERS for one in taints(node))


def tolerates_held(pod: Json, value: str) -> bool:
    return any(t.get("key") == names.HELD and t.get("value") == value for t in tolerations(pod))


def toleration_patch(pod: Json, value: str) -> Json:
    """Additions only: nothing else of a pod's tolerations may change once it exists."""
    return {"metadata": guard(pod), "spec": {"tolerations": [*tolerations(pod), _toleration(value)]}}


def _toleration(value: str) -> Json:
    return {"key": names.HELD, "operator": "Equal", "value": value, "effect": "NoSchedule"}


def checkpoint_request(pod: Json, at: str) -> Json:
    return {"metadata": {**guard(pod), "annotations": {names.CHECKPOINT_REQUESTED: at}}}


def asks_for_checkpoint(pod: Json) -> bool:
    return annotation(pod, names.CHECKPOINT) == "true"


def steering_parameter(params: Json, *, owned: str, deadline: str) -> Json:
    """What the standing policy (deploy/admission/steering.yaml) goes by. Its name marks the gated pods."""
    named = {"podName": params["pod_name"]} if params["pod_name"] else {}
    return {
        "apiVersion": "defrag.gpu.internal/v1alpha1",
        "kind": "Steering",
        "metadata": {
            "name": params["steering"],
            "labels": {names.OWNED: owned},
            "annotations": {names.DEADLINE: deadline},
        },
        "spec": {"ownerUid": params["workload_uid"], **named},
    }


def proving_pod(params: Json) -> Json:
    """A pod like the owner's next one, for a dry run: only what the standing policy looks at is alike."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "dry-run",
        "uid": params["workload_uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": params["pod_name"] or f"prove-{params['steering']}",
            "ownerReferences": [owner],
        },
        "spec": {
            "automountServiceAccountToken": False,
            "nodeSelector": {names.NEVER: "true"},
            "containers": [{"name": "prove", "image": "paper-hold"}],
        },
    }


_CREATED_PODS = {
    "operations": ["CREATE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["pods"],
    "scope": "Namespaced",
}


def steering_webhook(params: Json, *, owned: str, address: str, ca_bundle: str, deadline: str = "") -> Json:
    """Gates the next pods of one owner, and nobody else's. A refusal or a hang lets pods through."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": names.webhook_name(params["steering"]),
            "labels": {names.OWNED: owned},
            "annotations": {names.DEADLINE: deadline},
        },
        "webhooks": [
            {
                "name": "steer.defrag.gpu.internal",
                "clientConfig": {"url": address, "caBundle": ca_bundle},
                "rules": [_CREATED_PODS],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": params["namespace"]}},
                "matchConditions": _conditions(params),
                "failurePolicy": "Ignore",
                "timeoutSeconds": 2,
                "sideEffects": "NoneOnDryRun",
                "reinvocationPolicy": "Never",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _conditions(params: Json) -> list[Json]:
    """The API server asks us only about pods of that owner, and only by that name where it is known."""
    owner = (
        "object.metadata.?ownerReferences.orValue([])"
        f'.exists(o, o.?controller.orValue(false) && o.uid == "{params["workload_uid"]}")'
    )
    conditions = [{"name": "owner", "expression": owner}]
    if params["pod_name"]:
        named = f"object.metadata.?name.orValue('') == '{params['pod_name']}'"
        conditions.append({"name": "pod", "expression": named})
    return conditions


def guard(thing: Json) -> Json:
    """A write with these is refused if anything changed since `thing` was read."""
    return {"uid": uid(thing), "resourceVersion": version(thing)}


def _owned(holder: Json) -> str:
    """Value of our label on a node: of whichever of our traces on it came last."""
    return f"{holder['execution']}-{holder.get('mark') or 'x'}"


def _unlabel(is_last: bool) -> Json:
    return {"labels": {names.OWNED: None}} if is_last else {}


def _drop_gate() -> Json:
    return {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]}
