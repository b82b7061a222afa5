"""What is done to a pod by POST: binding it to a node, and evicting it under disruption budgets."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.calls import Answer, Call, now_text
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.decoding import read_object
from apps.simulator.api_server.deletion import DeleteOptions, read_options, remove
from apps.simulator.api_server.pod_defaults import set_condition
from apps.simulator.api_server.selectors import selector_matches
from apps.simulator.api_server.statuses import (
    ApiError,
    bad_request,
    conflict,
    forbidden,
    not_found,
    success,
)
from apps.simulator.api_server.store import Stored, encode

PDBS = "poddisruptionbudgets.policy"
SEVERAL_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."


def _done() -> Answer:
    return Answer(201, encode(success(201)))


def _pod(cluster: Cluster, call: Call) -> Stored:
    pods = cluster.kinds.find("", "v1", "pods")
    assert pods is not None
    call.kind = pods
    stored = cluster.get(pods, call.namespace, call.name)
    if stored is None:
        raise not_found(pods, call.name)
    return stored


# --- binding


async def bind(cluster: Cluster, call: Call) -> Answer:
    """nodeName, PodScheduled and the Binding's annotations in one write."""
    body = read_object(call, what="Binding")
    metadata, node = body.get("metadata") or {}, (body.get("target") or {}).get("name", "")
    if call.name and metadata.get("name", call.name) != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    call.name = call.name or metadata.get("name", "")
    if not node:
        raise ApiError(500, "target.name: Required value")
    current = _pod(cluster, call)
    pod = current.copy()
    _check_bindable(call, current, metadata)
    pod["spec"]["nodeName"] = node
    if metadata.get("annotations"):
        pod["metadata"]["annotations"] = {
            **pod["metadata"].get("annotations", {}),
            **metadata["annotations"],
        }
    pod["status"].pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True"}
    set_condition(pod["status"], {**scheduled, "lastProbeTime": None, "lastTransitionTime": now_text()})
    if not call.dry_run:
        cluster.store.put("pods", pod)
    return _done()


def _check_bindable(call: Call, current: Stored, metadata: dict[str, Any]) -> None:
    pod, uid = current.obj, metadata.get("uid", "")
    if uid and uid != pod["metadata"]["uid"]:
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{call.namespace}/{call.name}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {pod['metadata']['uid']}"
        )
        raise conflict(call.kind, call.name, why)
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {call.name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        why = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {call.name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(call.kind, call.name, why, plural="pods/binding")


# --- eviction


async def evict(cluster: Cluster, call: Call) -> Answer:
    body = read_object(call, what="Eviction") if call.body.strip() else {}
    if (body.get("metadata") or {}).get("name", call.name) != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    current = _pod(cluster, call)
    options = read_options(call.query, body.get("deleteOptions") or {})
    if not _is_outside_budgets(current.obj):
        spend_budget(cluster, current.obj, dry_run=options.dry_run)
    _mark_and_remove(cluster, call, current, options)
    return _done()


def _is_outside_budgets(pod: dict[str, Any]) -> bool:
    """Pods that do not run, or are ending already, cost no budget."""
    if pod["metadata"].get("deletionTimestamp"):
        return True
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending")


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def spend_budget(cluster: Cluster, pod: dict[str, Any], *, dry_run: bool) -> None:
    """Takes one disruption from the pod's budget, or refuses. It is not given back if the deletion fails."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels")
    budgets = [
        stored
        for stored in cluster.store.in_namespace(PDBS, namespace)
        if selector_matches(stored.obj.get("spec", {}).get("selector"), labels)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise ApiError(500, SEVERAL_BUDGETS)
    budget = budgets[0].copy()
    if not is_ready(pod) and _frees_unready(budget):
        return
    _check_budget(cluster, budget)
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
        }
        generation = {"observedGeneration": status.get("observedGeneration", 0)}
        set_condition(status, {**condition, **generation, "lastTransitionTime": now_text()})
    if dry_run:
        return
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now_text()
    cluster.store.put(PDBS, budget)


def _frees_unready(budget: dict[str, Any]) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return status.get("desiredHealthy", 0) > 0 and status["currentHealthy"] >= status["desiredHealthy"]


def _check_budget(cluster: Cluster, budget: dict[str, Any]) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _blocked(
            f"The disruption budget {name} is still being processed by the server.", retry_seconds=10
        )
    if status["disruptionsAllowed"] < 0:
        pdbs = cluster.kinds.find("policy", "v1", "poddisruptionbudgets")
        assert pdbs is not None
        raise forbidden(pdbs, name, "pdb disruptions allowed is negative")
    if status["disruptionsAllowed"] > 0:
        return
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if healthy <= desired:
        raise _blocked(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    raise _blocked(f"The disruption budget {name} does not allow evicting pods currently")


def _blocked(why: str, *, retry_seconds: int = 0) -> ApiError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    headers = {}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
        headers["Retry-After"] = str(retry_seconds)
    return ApiError(429, BLOCKED, "TooManyRequests", details, headers)


def _mark_and_remove(cluster: Cluster, call: Call, current: Stored, options: DeleteOptions) -> None:
    """The DisruptionTarget condition first, then the deletion: two events on a running pod."""
    uid = current.obj["metadata"]["uid"]
    if not options.dry_run and options.uid in ("", uid):
        pod = current.copy()
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now_text(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        set_condition(pod["status"], condition)
        if pod["status"] != current.obj["status"] and not options.resource_version:
            current = cluster.store.put("pods", pod)
    remove(cluster, call.kind, current, options)
