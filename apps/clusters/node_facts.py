"""A node of a snapshot as plain values, for the API: inventory, who holds what, link matrix.

`None` means "not known", never zero. No rules and no database here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apps.planner.inventory import Gpu, Node, Pod
from apps.planner.movability import movability
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot


def node_summary(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    """One row of the list. gpus_allocated counts units of the node's own GPU resource."""
    pods = snapshot.pods_on(node.name)
    return {
        "name": node.name,
        "uid": node.uid,
        "pool": node.pool,
        "rack": node.rack,
        "zone": node.zone,
        "vendor": node.vendor,
        "model": node.model,
        "is_ready": node.ready,
        "is_schedulable": not node.unschedulable,
        "is_cordoned_by_console": bool(node.cordon),
        "stale_since": as_time(node.stale_since),
        "gpu_resource": node.gpu_resource,
        "gpus_physical": len(node.gpus),
        "gpus_schedulable": node.allocatable.get(node.gpu_resource, 0) if node.gpu_resource else 0,
        "gpus_allocated": sum(pod.requests.get(node.gpu_resource, 0) for pod in pods),
        "sharing": node.sharing,
        "shares_per_gpu": node.shares_per_gpu,
        "mig_strategy": node.mig_strategy,
        "cpu_millicores": node.allocatable.get("cpu", 0),
        "memory_bytes": node.allocatable.get("memory", 0),
        "warnings": list(node.warnings),
    }


def node_detail(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    """All of a node: its devices with their holders, the link matrix, its pods."""
    return {
        **node_summary(snapshot, node),
        "allocatable": dict(node.allocatable),
        "labels": dict(node.labels),
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        "gpus": [gpu_facts(snapshot, node, gpu) for gpu in node.gpus],
        "holders_observed_at": as_time(node.holdings_observed_at),
        "topology": _topology(node),
        "pods": [_pod(snapshot, pod) for pod in snapshot.pods_on(node.name)],
    }


def as_time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def gpu_facts(snapshot: Snapshot, node: Node, gpu: Gpu) -> dict[str, Any]:
    """One device with its MIG instances and its holders; holders None where no source tells them."""
    devices = {gpu.uuid, *(instance.uuid for instance in gpu.instances)} - {""}
    holders = None
    if node.holdings is not None:
        holders = [
            {
                "pod": snapshot.pods[one.pod_uid].key if one.pod_uid in snapshot.pods else "",
                "pod_uid": one.pod_uid,
                "device": one.device,
                "milli": one.milli,
                "memory_mib": one.memory_mib,
            }
            for one in node.holdings
            if one.device in devices
        ]
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "memory_mib": gpu.memory_mib,
        "numa": gpu.numa,
        "pcie_switch": gpu.pcie_switch,
        "is_healthy": gpu.healthy,
        "mig_instances": [
            {"profile": one.profile, "start_slice": one.start_slice, "uuid": one.uuid}
            for one in gpu.instances
        ],
        "holders": holders,
    }


def _topology(node: Node) -> dict[str, Any] | None:
    found = node.topology
    if found is None:
        return None
    return {
        "links": [list(row) for row in found.links],
        "nics": [{"name": name, "numa": numa} for name, numa in found.nics],
        "nic_links": [list(row) for row in found.nic_links],
        "source": found.source,
        "observed_at": as_time(found.observed_at),
    }


def _pod(snapshot: Snapshot, pod: Pod) -> dict[str, Any]:
    verdict = movability(snapshot, pod)
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "workload": snapshot.workload_name(pod),
        "gang": pod.gang,
        "priority": pod.priority,
        "devices": {name: amount for name, amount in pod.requests.items() if is_device_resource(name)},
        "cpu_millicores": pod.requests.get("cpu", 0),
        "memory_bytes": pod.requests.get("memory", 0),
        "started_at": as_time(pod.started_at),
        "is_terminating": pod.terminating,
        "is_movable": verdict.movable,
        "reasons": list(verdict.reasons),
    }
