"""Built-in admission: what is refused or filled in because of other objects in the cluster.

Namespaces that end, service accounts, priority classes, quotas, the not-ready taint of new nodes.
Webhooks are a room of their own.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

from apps.simulator.api_server.calls import Call
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.pod_defaults import add_default_tolerations, mount_token
from apps.simulator.api_server.quantities import canonical_quantity, parse_quantity
from apps.simulator.api_server.statuses import ApiError, details_of, forbidden, not_found
from apps.simulator.api_server.strategies import NOT_READY

ACCOUNT_RETRY_SECONDS = 1.0
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def check_namespace(cluster: Cluster, call: Call, name: str) -> None:
    """Objects are made only in a namespace that exists and is not ending."""
    stored = cluster.store.get("namespaces", "", call.namespace)
    if stored is None:
        namespaces = cluster.kinds.find("", "v1", "namespaces")
        assert namespaces is not None
        raise not_found(namespaces, call.namespace)
    if not stored.obj["metadata"].get("deletionTimestamp"):
        return
    details = details_of(call.kind, name)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {call.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
    message = f'{call.kind.resource} "{name}" is forbidden: {why}'
    raise ApiError(403, message, "Forbidden", {**details, "causes": [cause]})


async def admit_new(cluster: Cluster, call: Call, obj: dict[str, Any]) -> None:
    """The mutating plugins, before webhooks see the object."""
    if call.kind.resource == "nodes":
        taints = obj["spec"].get("taints", [])
        if not any(t.get("key") == NOT_READY["key"] and t.get("effect") == "NoSchedule" for t in taints):
            obj["spec"]["taints"] = [*taints, dict(NOT_READY)]
    if call.kind.resource == "pods":
        await _find_account(cluster, call, obj)
        _set_priority(cluster, call, obj)
        add_default_tolerations(obj["spec"])


async def _find_account(cluster: Cluster, call: Call, pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or "default"
    deadline = asyncio.get_running_loop().time() + ACCOUNT_RETRY_SECONDS
    while (account := cluster.store.get("serviceaccounts", call.namespace, name)) is None:
        if asyncio.get_running_loop().time() > deadline:
            why = (
                f'error looking up service account {call.namespace}/{name}: serviceaccount "{name}" not found'
            )
            raise forbidden(call.kind, pod["metadata"]["name"], why)
        await asyncio.sleep(0.02)
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    wants_token = spec.get(
        "automountServiceAccountToken", account.obj.get("automountServiceAccountToken", True)
    )
    if wants_token:
        mount_token(spec)


def _set_priority(cluster: Cluster, call: Call, pod: dict[str, Any]) -> None:
    spec, name = pod["spec"], pod["metadata"]["name"]
    class_name = spec.get("priorityClassName", "")
    chosen: dict[str, Any] = {"value": 0}
    if class_name:
        stored = cluster.store.get("priorityclasses.scheduling.k8s.io", "", class_name)
        if stored is None and class_name not in SYSTEM_PRIORITIES:
            raise forbidden(call.kind, name, f"no PriorityClass with name {class_name} was found")
        chosen = stored.obj if stored else {"value": SYSTEM_PRIORITIES[class_name]}
    else:
        table = cluster.store.table("priorityclasses.scheduling.k8s.io")
        for stored in table.objects.values():
            if stored.obj.get("globalDefault"):
                chosen, spec["priorityClassName"] = stored.obj, stored.obj["metadata"]["name"]
    priority = chosen.get("value", 0)
    if "priority" in spec and spec["priority"] != priority:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(call.kind, name, why)
    spec["priority"] = priority
    spec["preemptionPolicy"] = spec.get("preemptionPolicy") or chosen.get(
        "preemptionPolicy", "PreemptLowerPriority"
    )


def charge_quota(cluster: Cluster, call: Call, pod: dict[str, Any]) -> None:
    """Refuses a pod that a ResourceQuota has no room for. Use is counted from the pods that are there."""
    quotas = [q.obj for q in cluster.store.in_namespace("resourcequotas", call.namespace)]
    if not quotas:
        return
    wanted = pod_charges(pod)
    used: dict[str, Decimal] = {}
    for stored in cluster.store.in_namespace("pods", call.namespace):
        if stored.obj["status"].get("phase") not in ("Succeeded", "Failed"):
            for name, amount in pod_charges(stored.obj).items():
                used[name] = used.get(name, Decimal(0)) + amount
    for quota in quotas:
        hard = quota.get("spec", {}).get("hard", {})
        over = [
            name
            for name, limit in hard.items()
            if wanted.get(name) and used.get(name, Decimal(0)) + wanted[name] > parse_quantity(limit)
        ]
        if over:
            parts = (
                ("requested", {n: wanted[n] for n in over}),
                ("used", {n: used.get(n, Decimal(0)) for n in over}),
                ("limited", {n: parse_quantity(hard[n]) for n in over}),
            )
            text = ", ".join(f"{title}: {_amounts(amounts)}" for title, amounts in parts)
            why = f"exceeded quota: {quota['metadata']['name']}, {text}"
            raise forbidden(call.kind, pod["metadata"]["name"], why)


def _amounts(amounts: dict[str, Decimal]) -> str:
    return ",".join(f"{name}={canonical_quantity(f'{amount:f}')}" for name, amount in amounts.items())


def pod_charges(pod: dict[str, Any]) -> dict[str, Decimal]:
    """What a pod takes from quotas: requests.X, limits.X and its number."""
    charges: dict[str, Decimal] = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for container in pod["spec"].get("containers", ()):
        for part in ("requests", "limits"):
            for name, amount in container.get("resources", {}).get(part, {}).items():
                key = f"{part}.{name}"
                charges[key] = charges.get(key, Decimal(0)) + parse_quantity(amount)
    for name in ("cpu", "memory"):
        if f"requests.{name}" in charges:
            charges[name] = charges[f"requests.{name}"]
    return charges
