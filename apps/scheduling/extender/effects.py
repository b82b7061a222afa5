"""Where pods take room, what a node has left beside them, and which changes it feels. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from apps.planner.inventory import Node, Pod
from apps.planner.room import Room
from apps.planner.rooms import Rooms
from apps.planner.snapshot import Snapshot


def make_room(node: Node, guests: Iterable[Pod]) -> Room:
    pods = {pod.uid: pod for pod in guests}
    return Rooms(Snapshot("", 0.0, nodes={node.name: node}, pods=pods)).by_node[node.name]


def place_of(pod: Pod) -> str:
    """Where it takes room: where it runs, or where a migration of ours keeps room for it."""
    if pod.is_holding:
        return pod.node_name
    is_kept = bool(pod.nominated_node) and not pod.node_name and not pod.terminating
    return pod.nominated_node if is_kept and (pod.hold or pod.steering) else ""


def is_felt(old: Pod, new: Pod) -> bool:
    """Whether the change of the pod changes what its node has left."""
    if place_of(old) != place_of(new) or old.requests != new.requests or old.devices != new.devices:
        return True
    if (old.gpu_milli, old.gpu_memory_mib) != (new.gpu_milli, new.gpu_memory_mib):
        return True
    return (old.hold, old.reservation, old.host_ports) != (new.hold, new.reservation, new.host_ports)


def is_same_node(old: Node, new: Node) -> bool:
    return old is new or replace(new, resource_version=old.resource_version) == old
