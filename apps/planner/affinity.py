"""Rules between pods: required affinity, anti-affinity (both ways round) and topology spread.

Read on the mutable `Rooms`, so that each move of a plan sees the moves before it. Who counts where is
counted by the rooms' `company`; a pod is never its own company.
"""

from __future__ import annotations

from apps.planner.company import Tally
from apps.planner.inventory import Node, Pod, PodTerm, SpreadConstraint
from apps.planner.rooms import Rooms
from apps.planner.selectors import matches, selects_pod


def uses_neighbours(pod: Pod) -> bool:
    return bool(pod.pod_affinity or pod.pod_anti_affinity or pod.spread)


def interpod_reasons(rooms: Rooms, pod: Pod, node: Node) -> list[str]:
    """Which of "affinity", "anti-affinity" and "spread" keep the pod off the node now."""
    home = rooms.where.get(pod.uid)
    if home is None:
        return _reasons(rooms, pod, node)
    company = rooms.company
    company.note(pod, home, -1)
    try:
        return _reasons(rooms, pod, node)
    finally:
        company.note(pod, home, 1)


def _reasons(rooms: Rooms, pod: Pod, node: Node) -> list[str]:
    """Of a pod that is nowhere."""
    company = rooms.company
    found: list[str] = []
    if pod.pod_affinity and not all(
        _has_company(pod, term, tally, node)
        for term, tally in zip(pod.pod_affinity, company.friends(pod), strict=True)
    ):
        found.append("affinity")
    foes = zip(pod.pod_anti_affinity, company.foes(pod), strict=True)
    if any(_meets(term, tally, node) for term, tally in foes) or any(
        _meets(term, owners, node) for term, owners in company.shunning(pod)
    ):
        found.append("anti-affinity")
    peers = zip(pod.spread, company.peers(pod), strict=True)
    if not all(_keeps_spread(pod, constraint, tally, node) for constraint, tally in peers):
        found.append("spread")
    return found


def _has_company(pod: Pod, term: PodTerm, friends: Tally, node: Node) -> bool:
    if node.labels.get(term.topology_key) is None:
        return False
    if _meets(term, friends, node):
        return True
    # The first of a group that wants its own company may start anywhere, as in kube-scheduler.
    return selects_pod(term, pod.namespace, pod) and not friends.total


def _meets(term: PodTerm, tally: Tally, node: Node) -> bool:
    value = node.labels.get(term.topology_key)
    return value is not None and tally.counts.get(value, 0) > 0


def _keeps_spread(pod: Pod, constraint: SpreadConstraint, peers: Tally, node: Node) -> bool:
    here = node.labels.get(constraint.topology_key)
    if here is None:
        return False
    domains, fewest = len(peers.values), peers.fewest
    if here not in peers.values:
        domains, fewest = domains + 1, 0
    if constraint.min_domains is not None and domains < constraint.min_domains:
        fewest = 0
    itself = 1 if matches(constraint.selector, pod.labels) else 0
    return peers.counts.get(here, 0) + itself - fewest <= constraint.max_skew
