"""A node of a snapshot as plain values, for the API: inventory, who holds what, link matrix.

`None` means "not known", never zero. No rules and no database here.
"""

from __future__ import annotations

from typing import Any

from apps.clusters.device_facts import as_time, count_facts, device_facts, group_facts
from apps.planner.inventory import Node, Pod
from apps.planner.ledger import node_ledger
from apps.planner.ledger_rows import SOURCE_WORDS, UNKNOWN_HERE, NodeLedger
from apps.planner.movability import movability
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot


def node_summary(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    """One row of the list. GPUs are physical devices; where one is dealt into several, units are another
    number."""
    return _summary(node, node_ledger(snapshot, node))


def _summary(node: Node, ledger: NodeLedger) -> dict[str, Any]:
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
        **count_facts(ledger),
        "sharing": node.sharing,
        "shares_per_gpu": node.shares_per_gpu,
        "mig_strategy": node.mig_strategy,
        "cpu_millicores": node.allocatable.get("cpu", 0),
        "memory_bytes": node.allocatable.get("memory", 0),
        "other_devices": [group_facts(group) for group in ledger.others],
        "drift": list(node.drift),
        "warnings": list(node.warnings),
    }


def node_detail(snapshot: Snapshot, node: Node) -> dict[str, Any]:
    """All of a node: its devices with their holders, the link matrix, its pods."""
    ledger = node_ledger(snapshot, node)
    return {
        **_summary(node, ledger),
        "allocatable": dict(node.allocatable),
        "labels": dict(node.labels),
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints],
        "gpus": [device_facts(ledger, ledger.main, row) for row in ledger.devices],
        "others": [device_facts(ledger, group, row) for group in ledger.others for row in group.devices],
        "unlocated": [
            {
                "pod": one.pod,
                "pod_uid": one.pod_uid,
                "gpus": one.milli / 1000,
                "units": one.units,
                "mig_instances": dict(one.profiles),
                "device": UNKNOWN_HERE,
            }
            for one in ledger.unlocated
        ],
        "strays": [{"pod": one.pod, "device_of": SOURCE_WORDS[one.source]} for one in ledger.strays],
        "holders_observed_at": as_time(node.holdings_observed_at),
        "topology": _topology(node),
        "pods": [_pod(snapshot, pod) for pod in snapshot.pods_on(node.name)],
    }


def _topology(node: Node) -> dict[str, Any] | None:
    found = node.topology
    if found is None:
        return None
    return {
        "links": [list(row) for row in found.links],
        "nics": [{"name": name, "numa": numa} for name, numa in found.nics],
        "nic_links": [list(row) for row in found.nic_links],
        "complete": found.complete,
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
