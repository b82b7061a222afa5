"""What the scheduler remembers: nodes with what is used on them, pods, nominations.

Kept up to date by single changes, so that a decision costs one pass over the nodes and nothing
more. Not here: rules (filters, scores) and the order of the queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from apps.simulator.controllers.objects import controller_of, labels_of, uid_of
from apps.simulator.controllers.quantities import effective_requests, parse_quantities

Json = dict[str, Any]
Term = dict[str, Any]


@dataclass(eq=False)
class PodFacts:
    """A pod as the scheduler reads it. Parsed lazily: most pods are never looked at closely."""

    pod: Json

    @cached_property
    def uid(self) -> str:
        return uid_of(self.pod)

    @cached_property
    def namespace(self) -> str:
        return self.pod["metadata"]["namespace"]

    @cached_property
    def key(self) -> str:
        return f"{self.namespace}/{self.pod['metadata']['name']}"

    @property
    def spec(self) -> Json:
        return self.pod["spec"]

    @cached_property
    def labels(self) -> dict[str, str]:
        return labels_of(self.pod)

    @cached_property
    def requests(self) -> Counter[str]:
        return Counter({name: amount for name, amount in effective_requests(self.spec).items() if amount})

    @cached_property
    def priority(self) -> int:
        return int(self.spec.get("priority") or 0)

    @cached_property
    def owner(self) -> str:
        reference = controller_of(self.pod)
        return reference["uid"] if reference else ""

    @cached_property
    def ports(self) -> frozenset[tuple[str, int]]:
        return frozenset(
            (port.get("protocol", "TCP"), port["hostPort"])
            for container in self.spec.get("containers") or []
            for port in container.get("ports") or []
            if port.get("hostPort")
        )

    @cached_property
    def chooses_nodes(self) -> bool:
        """Has a nodeSelector or a node affinity."""
        return bool(self.spec.get("nodeSelector") or (self.spec.get("affinity") or {}).get("nodeAffinity"))

    @cached_property
    def affinity_terms(self) -> list[Term]:
        return self._required("podAffinity")

    @cached_property
    def anti_affinity_terms(self) -> list[Term]:
        return self._required("podAntiAffinity")

    @cached_property
    def spread(self) -> list[Json]:
        return [
            each
            for each in self.spec.get("topologySpreadConstraints") or []
            if each.get("whenUnsatisfiable") == "DoNotSchedule"
        ]

    @property
    def nominated(self) -> str:
        return (self.pod.get("status") or {}).get("nominatedNodeName") or ""

    @property
    def may_preempt(self) -> bool:
        return self.spec.get("preemptionPolicy") != "Never"

    def _required(self, kind: str) -> list[Term]:
        affinity = (self.spec.get("affinity") or {}).get(kind) or {}
        return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


@dataclass(eq=False)
class NodeFacts:
    """A node and what its pods use of it."""

    node: Json
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Json] = field(default_factory=list)
    is_unschedulable: bool = False
    allocatable: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    ports: Counter[tuple[str, int]] = field(default_factory=Counter)

    def set_node(self, node: Json) -> None:
        """Read once per change of the node: a decision looks at every node."""
        self.node = node
        self.name = node["metadata"]["name"]
        self.labels = labels_of(node)
        self.taints = node["spec"].get("taints") or []
        self.is_unschedulable = bool(node["spec"].get("unschedulable"))
        self.allocatable = parse_quantities((node.get("status") or {}).get("allocatable"))

    def add(self, pod: PodFacts) -> None:
        self.pods[pod.uid] = pod
        self.used.update(pod.requests)
        self.ports.update(pod.ports)

    def remove(self, pod: PodFacts) -> None:
        if self.pods.pop(pod.uid, None) is not None:
            self.used.subtract(pod.requests)
            self.ports.subtract(pod.ports)

    def copy(self) -> NodeFacts:
        return replace(self, used=Counter(self.used), pods=dict(self.pods), ports=Counter(self.ports))


class SchedulerCache:
    """nodes: by name. assumed: pods that are being bound and not yet seen as bound."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.order: list[str] = []
        self.assumed: set[str] = set()
        self.anti_affinity_pods: dict[str, PodFacts] = {}
        self._nominations: dict[str, tuple[str, PodFacts]] = {}
        self._nominated_on: dict[str, dict[str, PodFacts]] = {}
        self._places: dict[str, tuple[str, PodFacts]] = {}

    def set_node(self, node: Json) -> None:
        name = node["metadata"]["name"]
        facts = self.nodes.get(name)
        if facts is None:
            facts = self.nodes[name] = NodeFacts(node, name)
            self.order.append(name)
            for place, pod in self._places.values():
                if place == name:
                    facts.add(pod)
        facts.set_node(node)

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.order.remove(name)

    def place_of(self, uid: str) -> str:
        return self._places[uid][0] if uid in self._places else ""

    def put(self, pod: PodFacts, node: str) -> None:
        """The pod uses room on the node from now on (bound, or assumed to be)."""
        self.take_out(pod.uid)
        self._places[pod.uid] = (node, pod)
        if node in self.nodes:
            self.nodes[node].add(pod)
        if pod.anti_affinity_terms:
            self.anti_affinity_pods[pod.uid] = pod

    def take_out(self, uid: str) -> bool:
        place = self._places.pop(uid, None)
        self.anti_affinity_pods.pop(uid, None)
        if place is None:
            return False
        if place[0] in self.nodes:
            self.nodes[place[0]].remove(place[1])
        return True

    def nominate(self, pod: PodFacts, node: str) -> None:
        self.forget_nomination(pod.uid)
        if node:
            self._nominations[pod.uid] = (node, pod)
            self._nominated_on.setdefault(node, {})[pod.uid] = pod

    def forget_nomination(self, uid: str) -> bool:
        known = self._nominations.pop(uid, None)
        if known is None:
            return False
        self._nominated_on[known[0]].pop(uid, None)
        return True

    def nominated_on(self, node: str) -> list[PodFacts]:
        pods = self._nominated_on.get(node)
        return list(pods.values()) if pods else []

    def nominated_node(self, uid: str) -> str:
        return self._nominations[uid][0] if uid in self._nominations else ""

    def find_pods(self) -> list[tuple[PodFacts, NodeFacts]]:
        """Every pod on a known node."""
        return [(pod, node) for node in self.nodes.values() for pod in node.pods.values()]
