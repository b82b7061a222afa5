"""The largest gang that could start now: how many groups of linked GPUs still fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apps.planner.group_packing import most_groups
from apps.planner.inventory import LinkClass
from apps.planner.rooms import Room, is_open_node
from apps.planner.topology import knows_links

GANG_SIZE = 8


@dataclass(frozen=True, slots=True)
class LargestGang:
    """pods: how many pods of gpus_per_pod linked GPUs could start at once. link "unknown": only counted."""

    gpus_per_pod: int
    link: str
    pods: int


def find_largest_gang(
    rooms: Iterable[Room], count: Callable[[Room, int, LinkClass], int] = most_groups
) -> LargestGang:
    """For the largest node size among the rooms (at most 8 GPUs), by NVLink where anyone knows links."""
    opened = [room for room in rooms if is_open_node(room.node)]
    size = min(max((len(room.node.gpus) for room in opened), default=0), GANG_SIZE)
    link = LinkClass.NVLINK if any(knows_links(room.node) for room in opened) else LinkClass.UNKNOWN
    pods = sum(count(room, size, link) for room in opened) if size else 0
    return LargestGang(size, str(link), pods)
