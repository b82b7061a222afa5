"""How a snapshot is stored: packed body, digest, and the few numbers that lists show.

Pure functions over the planner's snapshot; no rows here.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from apps.planner.inventory import Node, Pod
from apps.planner.resources import demand_of
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot

FAST = 1
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Snapshot)


def pack(snapshot: Snapshot) -> bytes:
    return zlib.compress(_encode(snapshot), FAST)


def unpack(body: bytes | memoryview) -> Snapshot:
    return _decoder.decode(zlib.decompress(bytes(body)))


class Fingerprint:
    """Digests snapshots by the facts that matter: not when they were taken, not bare revisions.

    Remembers each object's part, so that the next snapshot of the same watch costs what has changed.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[object, bytes]] = {}

    def digest(self, snapshot: Snapshot) -> str:
        """sha256 in hex."""
        parts = {
            "nodes": snapshot.nodes,
            "pods": snapshot.pods,
            "workloads": snapshot.workloads,
            "budgets": snapshot.budgets,
            "gangs": snapshot.gangs,
        }
        known, self._known = self._known, {}
        whole = hashlib.sha256(_encode([snapshot.cluster, snapshot.problems]))
        for section, members in parts.items():
            for key in sorted(members):
                whole.update(self._part(section, key, members[key], known))
        return whole.hexdigest()

    def _part(
        self,
        section: str,
        key: str,
        member: object,
        known: Mapping[tuple[str, str], tuple[object, bytes]],
    ) -> bytes:
        entry = known.get((section, key))
        if entry is None or entry[0] is not member:
            facts = _without_clockwork(member) if isinstance(member, Node) else member
            entry = (member, hashlib.sha256(_encode([section, key, facts])).digest())
        self._known[(section, key)] = entry
        return entry[1]


def _without_clockwork(node: Node) -> Node:
    topology = node.topology and replace(node.topology, observed_at=None)
    return replace(node, resource_version="", holdings_observed_at=None, topology=topology)


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
        "models": dict(models.most_common(50)),
        "drifted": {node.name: node.drift[0] for node in snapshot.nodes.values() if node.drift},
        "warnings": sum(1 for node in snapshot.nodes.values() if node.warnings),
        "problems": len(snapshot.problems),
    }


def _offered(node: Node) -> float:
    """Physical GPUs behind what the kubelet offers: a card cut by MIG offers its instances."""
    if any(gpu.instances for gpu in node.gpus) or node.mig_strategy == "single":
        return float(len(node.gpus))
    return node.allocatable.get(node.gpu_resource, 0) / max(node.shares_per_gpu, 1)


def _held_by_node(snapshot: Snapshot) -> dict[str, float]:
    return {
        name: sum(_asked(pod, snapshot.nodes.get(name)) for pod in pods)
        for name, pods in snapshot.pods_by_node.items()
    }


def _asked(pod: Pod, node: Node | None) -> float:
    if pod.hold:
        return 0.0
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
