"""Every physical GPU of a snapshot as plain values, for the API: what it is, its state, who holds it.

`None` means "not known", never zero. No rules and no database here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.clusters.node_facts import as_time, gpu_facts
from apps.planner.inventory import Gpu, Node
from apps.planner.snapshot import Snapshot

STATES = ("free", "held", "unhealthy", "unknown")
"""unknown: pods of the node hold some of its GPUs, and nobody tells which."""
BY_NODE_AGENT = "node-agent"


def gpus_of(snapshot: Snapshot) -> Iterator[tuple[Node, Gpu]]:
    """By node, then in driver order."""
    for _, node in sorted(snapshot.nodes.items()):
        for gpu in node.gpus:
            yield node, gpu


def gpu_row(snapshot: Snapshot, node: Node, gpu: Gpu) -> dict[str, Any]:
    is_told = node.holdings is not None
    facts = gpu_facts(snapshot, node, gpu)
    return {
        **facts,
        "node": node.name,
        "pool": node.pool,
        "vendor": node.vendor,
        "model": node.model,
        "state": _state(snapshot, node, gpu, facts["holders"]),
        "is_node_ready": node.ready,
        "is_node_schedulable": not node.unschedulable,
        "holders_source": BY_NODE_AGENT if is_told else "",
        "holders_observed_at": as_time(node.holdings_observed_at) if is_told else None,
    }


def _state(snapshot: Snapshot, node: Node, gpu: Gpu, holders: list[dict[str, Any]] | None) -> str:
    if not gpu.healthy:
        return "unhealthy"
    if holders:
        return "held"
    told = {one.pod_uid for one in node.holdings or ()}
    units = [(pod.uid, pod.requests.get(node.gpu_resource, 0)) for pod in snapshot.pods_on(node.name)]
    unplaced = sum(count for uid, count in units if uid not in told)
    if not unplaced:
        return "free"
    places = len(node.gpus) * max(1, node.shares_per_gpu)
    return "held" if holders is None and unplaced >= places else "unknown"
