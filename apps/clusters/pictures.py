"""A snapshot as it is kept: its packed body, and the few numbers that lists show.

Over the planner's snapshot alone; no rows here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from apps.clusters.packing import Opener, Packer
from apps.planner.inventory import Node, Pod
from apps.planner.maintenance import why_maintained
from apps.planner.resources import asks_gpu, demand_of
from apps.planner.rooms import is_open_node
from apps.planner.shares import NOTHING, WHOLE, asked_of, part_of
from apps.planner.snapshot import Snapshot

_opener = Opener()


def pack(snapshot: Snapshot) -> bytes:
    """For one snapshot; use a `Packer` for those of a watch."""
    return Packer().pack(snapshot)


def unpack(body: bytes | memoryview) -> Snapshot:
    """Objects that the snapshot opened before had as well are shared with it."""
    return _opener.open(body)


def summarise(snapshot: Snapshot) -> dict[str, Any]:
    """What lists and tiles show. GPUs are physical devices; a share or MIG instance counts as its part."""
    nodes = [node for node in snapshot.nodes.values() if node.gpus]
    held = _held_by_node(snapshot)
    open_nodes = [node for node in nodes if is_open_node(node)]
    schedulable = sum(min(len(node.gpus), _offered(node)) for node in open_nodes)
    free = sum(
        max(min(len(node.gpus), _offered(node)) - held.get(node.name, 0.0), 0.0) for node in open_nodes
    )
    models = Counter[str]()
    for node in nodes:
        models[node.model or node.vendor or "unknown"] += len(node.gpus)
    return {
        "nodes": len(snapshot.nodes),
        "gpu_nodes": len(nodes),
        "ready_nodes": sum(1 for node in snapshot.nodes.values() if node.ready),
        "gpus": {
            "physical": sum(len(node.gpus) for node in nodes),
            "schedulable": _plain(schedulable),
            "allocated": _plain(sum(held.values())),
            "free": _plain(free),
        },
        "pods": len(snapshot.pods),
        "pending": len(snapshot.pending_pods),
        "pending_gpus": _plain(sum(_asked(pod, None) for pod in snapshot.pending_pods)),
        "pending_since": _oldest(one.created_at for one in snapshot.pending_pods if asks_gpu(one)),
        "models": dict(models.most_common(50)),
        "drifted": {node.name: node.drift[0] for node in snapshot.nodes.values() if node.drift},
        "maintained": {
            node.name: reason for node in snapshot.nodes.values() if (reason := why_maintained(node))
        },
        "warnings": sum(1 for node in snapshot.nodes.values() if node.warnings),
        "problems": len(snapshot.problems),
    }


def _oldest(times: Iterable[float]) -> float | None:
    """In seconds since the epoch; None where nothing tells one."""
    return min((at for at in times if at > 0), default=None)


def _offered(node: Node) -> float:
    """Physical GPUs behind what the kubelet offers: a card cut by MIG offers its instances."""
    if any(gpu.instances for gpu in node.gpus) or node.mig_strategy == "single":
        return float(len(node.gpus))
    return node.allocatable.get(node.gpu_resource, 0) / max(node.shares_per_gpu, 1)


def _held_by_node(snapshot: Snapshot) -> dict[str, float]:
    """Pods with the same requests ask for the same, so it is worked out once for all of them."""
    known: dict[tuple[object, ...], float] = {}
    held: dict[str, float] = {}
    for name, pods in snapshot.pods_by_node.items():
        node = snapshot.nodes.get(name)
        sharing = (name,) if node and (node.shares_per_gpu > 1 or node.others) else ()
        memory = {gpu.memory_mib for gpu in node.gpus} if node else set()
        about = (node.gpu_resource if node else "", *sharing, *sorted(one or 0 for one in memory))
        total = 0.0
        for pod in pods:
            share = (pod.gpu_milli, pod.gpu_memory_mib, pod.hold, pod.reservation)
            wishes = (tuple(pod.requests.items()), share, about)
            asked = known.get(wishes)
            if asked is None:
                asked = known[wishes] = _asked(pod, node)
            total += asked
        held[name] = total
    return held


def _asked(pod: Pod, node: Node | None) -> float:
    if pod.hold:
        return 0.0
    asked = asked_of(node, pod) if node else NOTHING
    if node and asked.devices and not asked.profiles:
        return float(asked.devices * part_of(node, asked)) / WHOLE
    demand = demand_of(pod, frozenset({node.gpu_resource}) if node and node.gpu_resource else frozenset())
    shares = node.shares_per_gpu if node else 1
    return demand.gpu_milli / 1000 / max(shares, 1) + _mig_share(demand.resources)


def _plain(gpus: float) -> int | float:
    """Whole numbers as integers; shares to three places."""
    rounded = round(gpus, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _mig_share(resources: Iterable[tuple[str, int]]) -> float:
    """Compute slices of MIG instances, sevenths of a GPU."""
    found = 0.0
    for name, amount in resources:
        profile = name.removeprefix("nvidia.com/mig-")
        if profile != name and profile[:1].isdecimal():
            found += amount * int(profile[0]) / 7
    return found
