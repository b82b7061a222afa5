"""Rules between pods: required affinity, anti-affinity (both ways round) and topology spread.

Read on the mutable `Rooms`, so that each move of a plan sees the moves before it.
"""

from __future__ import annotations

from collections import Counter

from apps.planner.inventory import Node, Pod, PodTerm, SpreadConstraint
from apps.planner.rooms import Rooms
from apps.planner.selectors import matches, matches_labels, node_matches_terms, selects_pod


def uses_neighbours(pod: Pod) -> bool:
    return bool(pod.pod_affinity or pod.pod_anti_affinity or pod.spread)


def interpod_reasons(rooms: Rooms, pod: Pod, node: Node) -> list[str]:
    """Which of "affinity", "anti-affinity" and "spread" keep the pod off the node now."""
    found: list[str] = []
    if any(not _has_company(rooms, pod, term, node) for term in pod.pod_affinity):
        found.append("affinity")
    if any(_meets_foe(rooms, pod, term, node) for term in pod.pod_anti_affinity) or _is_shunned(
        rooms, pod, node
    ):
        found.append("anti-affinity")
    if any(not _keeps_spread(rooms, pod, constraint, node) for constraint in pod.spread):
        found.append("spread")
    return found


def _pods_in_domain(rooms: Rooms, key: str, value: str) -> list[Pod]:
    return [
        pod
        for room in rooms.by_node.values()
        if room.node.labels.get(key) == value
        for pod in room.pods.values()
    ]


def _has_company(rooms: Rooms, pod: Pod, term: PodTerm, node: Node) -> bool:
    value = node.labels.get(term.topology_key)
    if value is None:
        return False
    friends = _pods_in_domain(rooms, term.topology_key, value)
    if any(friend.uid != pod.uid and selects_pod(term, pod.namespace, friend) for friend in friends):
        return True
    # The first of a group that wants its own company may start anywhere, as in kube-scheduler.
    return selects_pod(term, pod.namespace, pod) and not any(
        other.uid != pod.uid and selects_pod(term, pod.namespace, other)
        for room in rooms.by_node.values()
        for other in room.pods.values()
    )


def _meets_foe(rooms: Rooms, pod: Pod, term: PodTerm, node: Node) -> bool:
    value = node.labels.get(term.topology_key)
    return value is not None and any(
        other.uid != pod.uid and selects_pod(term, pod.namespace, other)
        for other in _pods_in_domain(rooms, term.topology_key, value)
    )


def _is_shunned(rooms: Rooms, pod: Pod, node: Node) -> bool:
    """Whether a pod already there (or in the same domain) wants to keep this one away."""
    for uid, node_name in rooms.anti_pods.items():
        if uid == pod.uid:
            continue
        room = rooms.by_node[node_name]
        other = room.pods[uid]
        for term in other.pod_anti_affinity:
            value = node.labels.get(term.topology_key)
            if value is None or room.node.labels.get(term.topology_key) != value:
                continue
            if selects_pod(term, other.namespace, pod):
                return True
    return False


def _keeps_spread(rooms: Rooms, pod: Pod, constraint: SpreadConstraint, node: Node) -> bool:
    here = node.labels.get(constraint.topology_key)
    if here is None:
        return False
    counts: Counter[str] = Counter()
    for room in rooms.by_node.values():
        value = room.node.labels.get(constraint.topology_key)
        if value is None or not _is_eligible(pod, room.node):
            continue
        counts[value] += sum(
            1
            for other in room.pods.values()
            if other.uid != pod.uid
            and other.namespace == pod.namespace
            and not other.terminating
            and matches(constraint.selector, other.labels)
        )
    counts.setdefault(here, 0)
    fewest = min(counts.values())
    if constraint.min_domains is not None and len(counts) < constraint.min_domains:
        fewest = 0
    itself = 1 if matches(constraint.selector, pod.labels) else 0
    return counts[here] + itself - fewest <= constraint.max_skew


def _is_eligible(pod: Pod, node: Node) -> bool:
    """The nodes that count as domains: those the pod's own selector and affinity allow."""
    return matches_labels(pod.node_selector, node.labels) and node_matches_terms(node, pod.node_terms)
