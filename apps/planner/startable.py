"""For each shape that waits: how many pods of it could start now, were no others to come.

Not in here: why the rest cannot (waiting), what to move for them (unlock).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np

from apps.planner.capacity import count_alone
from apps.planner.fitting import Fitting, Reason
from apps.planner.group_packing import most_groups
from apps.planner.inventory import Pod
from apps.planner.mig.nodes import asked_profiles
from apps.planner.resources import Demand, asks_gpu
from apps.planner.rooms import Room, Rooms, is_open_node
from apps.planner.snapshot import Snapshot

MOST_SHAPES = 20


@dataclass(frozen=True, slots=True)
class StartableShape:
    """workload: the first in the queue that asks for this shape. milli: of each GPU. waiting: pods that
    ask for it. pods: how many could start now, on `nodes` nodes; at_most: rules between pods may leave fewer.
    """

    workload: str
    gpus_per_pod: int
    milli: int
    memory_mib: int | None
    link: str
    profiles: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    pods: int = 0
    nodes: int = 0
    at_most: bool = False


def list_startable(snapshot: Snapshot, rooms: Rooms) -> tuple[StartableShape, ...]:
    """Shapes that ask for GPUs in any form but claims (those only the scheduler can match), in the order of
    the queue; of more than MOST_SHAPES those that most GPUs wait for."""
    waiting = [pod for pod in snapshot.pending_pods if asks_gpu(pod) and not (pod.claims or pod.claim_wishes)]
    if not waiting:
        return ()
    fitting = Fitting(rooms)
    shapes: dict[Hashable, list[Pod]] = {}
    for pod in waiting:
        shapes.setdefault((rooms.demand(pod), fitting.signature(pod)), []).append(pod)
    counter = _Counter(rooms, fitting)
    groups = list(shapes.values())
    largest = sorted(range(len(groups)), key=lambda at: (-_asked(rooms, groups[at]), at))[:MOST_SHAPES]
    return tuple(counter.measure(snapshot, groups[at]) for at in sorted(largest))


def _asked(rooms: Rooms, pods: list[Pod]) -> int:
    return rooms.demand(pods[0]).gpu_milli * len(pods)


class _Counter:
    """Asks only nodes that have the GPUs at all."""

    def __init__(self, rooms: Rooms, fitting: Fitting) -> None:
        self._rooms, self._fitting = rooms, fitting
        self._open = [room for room in rooms.by_node.values() if is_open_node(room.node)]
        width = max((len(room.gpu_left) for room in self._open), default=0)
        padded = [(room.gpu_left + [0] * width)[:width] for room in self._open]
        self._left = np.array(padded, dtype=np.int64).reshape(len(self._open), width)
        self._by_device = np.array([room.by_device for room in self._open], dtype=bool)

    def measure(self, snapshot: Snapshot, pods: list[Pod]) -> StartableShape:
        pod, demand = pods[0], self._rooms.demand(pods[0])
        counts = [_count(room, demand) for room in self._candidates(demand) if self._may_run(pod, room)]
        return StartableShape(
            workload=snapshot.workload_name(pod),
            gpus_per_pod=demand.gpus,
            milli=demand.milli,
            memory_mib=demand.memory_mib,
            link=str(demand.link or ""),
            profiles=asked_profiles(pod),
            waiting=len(pods),
            pods=sum(counts),
            nodes=sum(1 for count in counts if count),
            at_most=any(self._fitting.needs_neighbours(one) for one in pods),
        )

    def _candidates(self, demand: Demand) -> list[Room]:
        if not demand.gpus:
            return self._open
        enough = (self._left >= demand.milli).sum(axis=1) >= demand.gpus
        return [self._open[at] for at in np.flatnonzero(enough | ~self._by_device)]

    def _may_run(self, pod: Pod, room: Room) -> bool:
        """Another scheduler keeps us from moving a pod, not the pod from starting."""
        reasons = self._fitting.static_reasons(pod, room.node)
        return not reasons or set(reasons) == {Reason.SCHEDULER}


def _count(room: Room, demand: Demand) -> int:
    count = count_alone(room, demand)
    if count and demand.link is not None:
        count = min(count, most_groups(room, demand.gpus, demand.link))
    return count
