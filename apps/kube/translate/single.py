"""Translates one object that changed, with what the objects around it said in the last whole snapshot.

For who follows a cluster event by event: a change of the surroundings themselves (a namespace, a workload, a
slice) is seen with the next whole snapshot. Which pod holds which device is settled by the caller, who knows
the pods (`holders.settle_holders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.kube.topology.placing import Seat
from apps.kube.translate.device_book import SlicedNode
from apps.kube.translate.linked import with_places
from apps.kube.translate.nodes import read_node
from apps.kube.translate.pods import read_pod
from apps.kube.translate.sliced_nodes import with_slices
from apps.kube.translate.surroundings import Around, read_ties, surroundings_of
from apps.kube.translate.unreadable import UNREADABLE, Raw, opened, unreadable_node, unreadable_pod
from apps.planner.inventory import Node, Pod


@dataclass(frozen=True)
class Scenery:
    """nodes: by name as they were read, before their holders were settled. sliced, seats: by node, what
    slices and others tell of its devices."""

    around: Around = field(default_factory=Around)
    sliced: Mapping[str, SlicedNode] = field(default_factory=dict)
    seats: Mapping[str, tuple[tuple[Seat, ...], str]] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)


def read_one_pod(raw: Raw, scenery: Scenery) -> Pod:
    """As a snapshot would have it."""
    whole = opened(raw)
    try:
        pod = read_pod(whole, surroundings_of(read_ties(whole), scenery.around))
    except UNREADABLE:
        return unreadable_pod(whole)
    return pod


def read_one_node(raw: Raw, scenery: Scenery, *, taken_at: float) -> Node:
    """As a snapshot would have it, but for its holders and for what it showed before."""
    whole = opened(raw)
    try:
        node = read_node(whole, taken_at=taken_at).node
    except UNREADABLE:
        return unreadable_node(whole, taken_at)
    if node.name in scenery.sliced:
        node = with_slices(node, scenery.sliced[node.name])
    if node.name in scenery.seats and node.gpus:
        node = with_places(node, *scenery.seats[node.name])
    return node
