"""Puts pods that start together or not at all onto the rooms. Not in here: moving others (defrag)."""

from __future__ import annotations

from collections.abc import Sequence

from apps.planner.fitting import Fitting
from apps.planner.inventory import Pod
from apps.planner.rooms import Rooms


def place_together(rooms: Rooms, fitting: Fitting, pods: Sequence[Pod]) -> list[str] | None:
    """Each on the tightest node that takes it, the largest first: the nodes in the order of `pods`. None, and
    the rooms as they were, where one of them finds no place."""
    mark = rooms.checkpoint()
    chosen: dict[str, str] = {}
    for pod in sorted(pods, key=lambda one: (-rooms.demand(one).gpu_milli, one.uid)):
        choices = [name for name in rooms.by_node if fitting.can_run(pod, name)]
        if not choices:
            rooms.undo(mark)
            return None
        chosen[pod.uid] = min(choices, key=lambda name: (rooms.by_node[name].idle_milli, name))
        rooms.place(pod, chosen[pod.uid])
    return [chosen[pod.uid] for pod in pods]
