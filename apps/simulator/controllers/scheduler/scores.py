"""Which of the fitting nodes is best: the stock scores, each 0 to 100, with their weights.

LeastAllocated and BalancedAllocation over CPU and memory (GPUs do not count, as by default: this
is what scatters small jobs), PreferNoSchedule taints, preferred node affinity, even spread of one
owner's pods over nodes and zones.
"""

from __future__ import annotations

from collections import Counter

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts
from apps.simulator.controllers.selectors import matches_term, tolerates

_ZONE = "topology.kubernetes.io/zone"
_LEAST_CPU = 100
_LEAST_MEMORY = 200 * 2**20


def score_nodes(pod: PodFacts, nodes: list[NodeFacts]) -> dict[str, float]:
    taints = _normalise({node.name: _count_soft_taints(pod, node) for node in nodes}, reverse=True)
    wishes = _normalise({node.name: _sum_preferences(pod, node) for node in nodes}, reverse=False)
    spread = _score_spread(pod, nodes)
    return {
        node.name: _score_room(pod, node)
        + 3 * taints[node.name]
        + 2 * wishes[node.name]
        + 2 * spread[node.name]
        for node in nodes
    }


def _score_room(pod: PodFacts, node: NodeFacts) -> float:
    shares = []
    for resource, least in (("cpu", _LEAST_CPU), ("memory", _LEAST_MEMORY)):
        total = node.allocatable[resource]
        used = node.used[resource] + (pod.requests[resource] or least)
        shares.append(min(1.0, used / total) if total else 1.0)
    least_allocated = 100 * (1 - sum(shares) / 2)
    balanced = 100 * (1 - abs(shares[0] - shares[1]) / 2)
    return least_allocated + balanced


def _count_soft_taints(pod: PodFacts, node: NodeFacts) -> float:
    if not node.taints:
        return 0.0
    tolerations = pod.spec.get("tolerations") or []
    soft = (taint for taint in node.taints if taint.get("effect") == "PreferNoSchedule")
    return sum(1 for taint in soft if not tolerates(tolerations, taint))


def _sum_preferences(pod: PodFacts, node: NodeFacts) -> float:
    if not pod.chooses_nodes:
        return 0.0
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    return sum(
        each["weight"]
        for each in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        if matches_term(each["preference"], node.name, node.labels)
    )


def _score_spread(pod: PodFacts, nodes: list[NodeFacts]) -> dict[str, float]:
    if not pod.owner:
        return {node.name: 0.0 for node in nodes}
    here = {node.name: sum(1 for each in node.pods.values() if each.owner == pod.owner) for node in nodes}
    zones: Counter[str] = Counter()
    for node in nodes:
        zones[node.labels.get(_ZONE, "")] += here[node.name]
    counts = {node.name: float(here[node.name] + zones[node.labels.get(_ZONE, "")]) for node in nodes}
    return _normalise(counts, reverse=True)


def _normalise(values: dict[str, float], *, reverse: bool) -> dict[str, float]:
    most = max(values.values(), default=0.0)
    if most <= 0:
        return dict.fromkeys(values, 100.0 if reverse else 0.0)
    return {name: 100 * ((most - value) if reverse else value) / most for name, value in values.items()}
