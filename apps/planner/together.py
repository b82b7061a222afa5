"""Puts pods that start together or not at all onto the rooms. Not in here: moving others (defrag)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby

from apps.planner.fitting import Fitting
from apps.planner.inventory import Pod
from apps.planner.rooms import Rooms


def place_together(rooms: Rooms, fitting: Fitting, pods: Sequence[Pod]) -> list[str] | None:
    """Each on the tightest node that takes it, the largest first: the nodes in the order of `pods`. None, and
    the rooms as they were, where one of them finds no place."""
    mark = rooms.checkpoint()
    chosen: dict[str, str] = {}
    ordered = sorted(pods, key=lambda one: (-rooms.demand(one).gpu_milli, one.uid))
    for _, alike in groupby(ordered, key=lambda one: _shape_of(rooms, fitting, one)):
        if not _place_alike(rooms, fitting, alike, chosen):
            rooms.undo(mark)
            return None
    return [chosen[pod.uid] for pod in pods]


def _shape_of(rooms: Rooms, fitting: Fitting, pod: Pod) -> object:
    """Pods with neighbours in mind stand alone: each one placed changes what the next may."""
    return pod.uid if fitting.needs_neighbours(pod) else (rooms.demand(pod), fitting.signature(pod))


def _place_alike(rooms: Rooms, fitting: Fitting, pods: Iterable[Pod], chosen: dict[str, str]) -> bool:
    """Every node is asked once for all of them, and again only after it took one."""
    queue: list[tuple[int, str]] | None = None
    for pod in pods:
        if queue is None:
            open_to = [name for name in rooms.by_node if fitting.can_run(pod, name)]
            queue = [(rooms.by_node[name].idle_milli, name) for name in open_to]
            heapify(queue)
        if not queue:
            return False
        _, name = heappop(queue)
        chosen[pod.uid] = name
        rooms.place(pod, name)
        if fitting.can_run(pod, name):
            heappush(queue, (rooms.by_node[name].idle_milli, name))
    return True
