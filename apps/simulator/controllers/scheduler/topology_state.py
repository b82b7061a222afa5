"""Counts over the whole cluster that spread and pod (anti-)affinity need, for one pod.

Built once per decision and only for pods that are concerned. Adding or removing a pod on one
node changes the counts in place, so preemption can try out and take back.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts, SchedulerCache
from apps.simulator.controllers.selectors import find_untolerated, matches_node, matches_selector

Json = dict[str, Any]
Pair = tuple[int, str]


class TopologyState:
    def __init__(self, pod: PodFacts, cache: SchedulerCache, namespaces: dict[str, Json]) -> None:
        self.pod = pod
        self.namespaces = namespaces
        self.affinity: Counter[Pair] = Counter()
        self.anti_affinity: Counter[Pair] = Counter()
        self.existing_anti: Counter[tuple[str, str]] = Counter()
        self.spread: list[Counter[str]] = [Counter() for _ in pod.spread]
        self.domains: list[set[str]] = [set() for _ in pod.spread]
        for node in cache.nodes.values():
            self._count_domains(node)
        if pod.affinity_terms or pod.anti_affinity_terms or pod.spread:
            for other, node in cache.find_pods():
                self.shift(other, node, 1)
        else:
            for other in cache.anti_affinity_pods.values():
                place = cache.nodes.get(cache.place_of(other.uid))
                if place:
                    self.shift(other, place, 1)

    @staticmethod
    def concerns(pod: PodFacts, cache: SchedulerCache) -> bool:
        return bool(cache.anti_affinity_pods or pod.affinity_terms or pod.anti_affinity_terms or pod.spread)

    def shift(self, other: PodFacts, node: NodeFacts, by: int) -> None:
        labels = node.labels
        for position, term in enumerate(self.pod.affinity_terms):
            value = labels.get(term["topologyKey"])
            if value is not None and self._selects(term, self.pod, other):
                self.affinity[position, value] += by
        for position, term in enumerate(self.pod.anti_affinity_terms):
            value = labels.get(term["topologyKey"])
            if value is not None and self._selects(term, self.pod, other):
                self.anti_affinity[position, value] += by
        for term in other.anti_affinity_terms:
            value = labels.get(term["topologyKey"])
            if value is not None and self._selects(term, other, self.pod):
                self.existing_anti[term["topologyKey"], value] += by
        self._shift_spread(other, labels, by)

    def _shift_spread(self, other: PodFacts, labels: dict[str, str], by: int) -> None:
        for position, constraint in enumerate(self.pod.spread):
            value = labels.get(constraint["topologyKey"])
            counts = (
                value in self.domains[position]
                and other.namespace == self.pod.namespace
                and not other.pod["metadata"].get("deletionTimestamp")
                and matches_selector(constraint.get("labelSelector"), other.labels)
            )
            if counts and value is not None:
                self.spread[position][value] += by

    def _count_domains(self, node: NodeFacts) -> None:
        """Only nodes that the pod's own node affinity allows form a domain (taints are honoured
        where the constraint says so)."""
        for position, constraint in enumerate(self.pod.spread):
            value = node.labels.get(constraint["topologyKey"])
            if value is None or not matches_node(self.pod.spec, node.name, node.labels):
                continue
            honours = constraint.get("nodeTaintsPolicy") == "Honor"
            if honours and find_untolerated(self.pod.spec, node.taints, ("NoSchedule", "NoExecute")):
                continue
            self.domains[position].add(value)

    def _selects(self, term: Json, owner: PodFacts, other: PodFacts) -> bool:
        """Does the term of `owner` mean `other`?"""
        names = term.get("namespaces") or []
        selector = term.get("namespaceSelector")
        here = other.namespace in names
        if selector is not None:
            here = here or matches_selector(selector, self.namespaces.get(other.namespace, {}))
        elif not names:
            here = other.namespace == owner.namespace
        return here and matches_selector(term.get("labelSelector"), other.labels)

    def why_not_spread(self, node: NodeFacts) -> str:
        for position, constraint in enumerate(self.pod.spread):
            value = node.labels.get(constraint["topologyKey"])
            if value is None:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            domains = self.domains[position]
            counts = self.spread[position]
            least = min((counts[each] for each in domains), default=0)
            if constraint.get("minDomains") and len(domains) < constraint["minDomains"]:
                least = 0
            itself = int(matches_selector(constraint.get("labelSelector"), self.pod.labels))
            if counts[value] + itself - least > constraint["maxSkew"]:
                return "node(s) didn't match pod topology spread constraints"
        return ""

    def why_not_affinity(self, node: NodeFacts) -> tuple[str, bool]:
        """(reason, can removing pods help?)"""
        for position, term in enumerate(self.pod.affinity_terms):
            value = node.labels.get(term["topologyKey"])
            if value is None or not (self.affinity[position, value] or self._is_first(position, term)):
                return "node(s) didn't match pod affinity rules", False
        for position, term in enumerate(self.pod.anti_affinity_terms):
            value = node.labels.get(term["topologyKey"])
            if value is not None and self.anti_affinity[position, value] > 0:
                return "node(s) didn't match pod anti-affinity rules", True
        for (key, value), count in self.existing_anti.items():
            if count > 0 and node.labels.get(key) == value:
                return "node(s) didn't satisfy existing pods anti-affinity rules", True
        return "", True

    def _is_first(self, position: int, term: Json) -> bool:
        """The first pod of a group that wants to be near itself may start anywhere."""
        nobody = not any(count for (place, _), count in self.affinity.items() if place == position)
        return nobody and self._selects(term, self.pod, self.pod)
