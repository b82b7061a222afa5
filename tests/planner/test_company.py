"""The index behind the rules between pods beside a plain walk over the whole cluster, as pods come and go."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from apps.planner.affinity import interpod_reasons
from apps.planner.inventory import LabelSelector, Node, Pod, PodTerm, Requirement, SpreadConstraint
from apps.planner.rooms import Rooms
from apps.planner.selectors import matches, matches_labels, node_matches_terms, selects_pod
from apps.planner.snapshot import Snapshot

HOST, ZONE, RACK = "kubernetes.io/hostname", "zone", "rack"


def walk(rooms: Rooms, pod: Pod, node: Node) -> list[str]:
    """The rules as Kubernetes words them, every pod of the cluster asked."""
    others = [
        (other, room.node)
        for room in rooms.by_node.values()
        for other in room.pods.values()
        if other.uid != pod.uid
    ]

    def meets(term: PodTerm, owner: Pod, other: Pod, its_node: Node, where: Node) -> bool:
        value = where.labels.get(term.topology_key)
        is_here = value is not None and its_node.labels.get(term.topology_key) == value
        return is_here and selects_pod(term, owner.namespace, other)

    def has_company(term: PodTerm) -> bool:
        if term.topology_key not in node.labels:
            return False
        if any(meets(term, pod, other, its_node, node) for other, its_node in others):
            return True
        is_first = not any(selects_pod(term, pod.namespace, other) for other, _ in others)
        return is_first and selects_pod(term, pod.namespace, pod)

    found = []
    if not all(has_company(term) for term in pod.pod_affinity):
        found.append("affinity")
    if any(
        meets(term, pod, other, its_node, node)
        for term in pod.pod_anti_affinity
        for other, its_node in others
    ) or any(
        meets(term, other, pod, node, its_node)
        for other, its_node in others
        for term in other.pod_anti_affinity
    ):
        found.append("anti-affinity")
    if not all(keeps_spread(rooms, pod, one, node, others) for one in pod.spread):
        found.append("spread")
    return found


def keeps_spread(
    rooms: Rooms, pod: Pod, rule: SpreadConstraint, node: Node, others: list[tuple[Pod, Node]]
) -> bool:
    key = rule.topology_key
    if key not in node.labels:
        return False
    nodes = [
        room.node
        for room in rooms.by_node.values()
        if key in room.node.labels
        and matches_labels(pod.node_selector, room.node.labels)
        and node_matches_terms(room.node, pod.node_terms)
    ]
    counts = Counter(dict.fromkeys((one.labels[key] for one in nodes), 0))
    names = {one.name for one in nodes}
    for other, its_node in others:
        if its_node.name in names and other.namespace == pod.namespace and not other.terminating:
            counts[its_node.labels[key]] += matches(rule.selector, other.labels)
    counts[node.labels[key]] += 0
    few = rule.min_domains is not None and len(counts) < rule.min_domains
    fewest = 0 if few else min(counts.values())
    return counts[node.labels[key]] + matches(rule.selector, pod.labels) - fewest <= rule.max_skew


def draw_cluster(draw: random.Random) -> Snapshot:
    nodes = {}
    for number in range(7):
        labels = {HOST: f"n{number}", ZONE: f"z{number % 3}", RACK: f"r{number % 2}"}
        labels = {key: value for key, value in labels.items() if draw.random() > 0.1}
        nodes[f"n{number}"] = Node(f"n{number}", labels=labels, allocatable={"cpu": 10**6, "pods": 99})
    pods = {}
    for number in range(24):
        name = draw.choice([*nodes, ""])
        pods[f"p{number}"] = Pod(
            uid=f"p{number}",
            namespace=draw.choice("ab"),
            name=f"p{number}",
            labels={"app": draw.choice("xyz"), "tier": draw.choice("st")},
            node_name=name,
            phase="Running" if name else "Pending",
            terminating=draw.random() < 0.1,
            node_selector={RACK: "r0"} if draw.random() < 0.2 else {},
            **draw_rules(draw),
        )
    return Snapshot("drawn", 0.0, nodes=nodes, pods=pods)


def draw_rules(draw: random.Random) -> dict[str, tuple[PodTerm | SpreadConstraint, ...]]:
    def select() -> LabelSelector | None:
        wish = Requirement("app", "In", tuple(draw.sample("xyz", draw.choice([1, 2]))))
        other = Requirement("tier", draw.choice(["NotIn", "Exists", "In"]), ("s",))
        return draw.choice(
            [LabelSelector((wish,)), LabelSelector((other,)), LabelSelector((other, wish)), None]
        )

    def term() -> PodTerm:
        spaces = draw.choice([(), ("a",), ("a", "b")])
        return PodTerm(draw.choice([HOST, ZONE, RACK]), select(), spaces, draw.random() < 0.2)

    def spread() -> SpreadConstraint:
        key, least = draw.choice([HOST, ZONE, RACK]), draw.choice([None, None, 2, 4])
        return SpreadConstraint(key, draw.choice([1, 2]), select(), least)

    return {
        "pod_affinity": tuple(term() for _ in range(draw.choice([0, 0, 1]))),
        "pod_anti_affinity": tuple(term() for _ in range(draw.choice([0, 0, 1, 2]))),
        "spread": tuple(spread() for _ in range(draw.choice([0, 0, 1, 2]))),
    }


@pytest.mark.parametrize("seed", range(6))
def test_same_reasons_as_a_plain_walk_whatever_comes_and_goes(seed: int) -> None:
    draw = random.Random(seed)
    rooms = Rooms(draw_cluster(draw))
    pods, nodes = list(rooms.snapshot.pods.values()), list(rooms.snapshot.nodes)
    marks = [rooms.checkpoint()]
    for step in range(60):
        pod, name = draw.choice(pods), draw.choice(nodes)
        kind = draw.random()
        if kind < 0.15:
            rooms.undo(marks.pop() if len(marks) > 1 else marks[0])
        elif kind < 0.3:
            marks.append(rooms.checkpoint())
        elif pod.uid in rooms.where:
            rooms.remove(pod)
        else:
            rooms.place(replace(pod, node_name=name), name)
        for asker in draw.sample(pods, 4):
            node = rooms.snapshot.nodes[draw.choice(nodes)]
            assert interpod_reasons(rooms, asker, node) == walk(rooms, asker, node), (step, asker.uid)


def test_a_copy_counts_for_itself() -> None:
    draw = random.Random(1)
    rooms = Rooms(draw_cluster(draw))
    asked = [(pod, node) for pod in rooms.snapshot.pods.values() for node in rooms.snapshot.nodes.values()]
    before = [interpod_reasons(rooms, pod, node) for pod, node in asked]
    twin = rooms.copy()
    for uid in list(twin.where):
        twin.remove(twin.snapshot.pods[uid])
    assert [interpod_reasons(rooms, pod, node) for pod, node in asked] == before
    assert [interpod_reasons(twin, pod, node) for pod, node in asked] != before
