"""Where a pod could go, tightest first, asked of all nodes at once.

Tables of numbers over one mutable `Rooms`, since a large cluster asks for the best of ten thousand
nodes many times over. What the tables cannot tell (links, host ports, rules between pods) is asked of
the node itself by whoever reads the answer. Not in here: which pods to move (free_nodes, unlock).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from apps.planner.fitting import Fitting
from apps.planner.inventory import Pod
from apps.planner.resources import Demand
from apps.planner.rooms import WHOLE, Room, Rooms

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST = 2**62
"""Amounts beyond it are as good as it."""


class TargetTable:
    """rooms: as they change; `touch` says which have changed. fitting: for what no move can change."""

    def __init__(self, rooms: Rooms, fitting: Fitting) -> None:
        self._fitting = fitting
        self._rooms = list(rooms.by_node.values())
        self._names = list(rooms.by_node)
        self._place = {name: at for at, name in enumerate(self._names)}
        kinds: dict[tuple[object, ...], int] = {}
        self._kind = np.array(
            [kinds.setdefault(fitting.node_kind(name), len(kinds)) for name in self._names], dtype=np.int64
        )
        self._example = [int(np.argmax(self._kind == number)) for number in range(len(kinds))]
        self._resource = np.array([room.node.gpu_resource for room in self._rooms], dtype=object)
        self._tightness = np.array([_tightness(room) for room in self._rooms], dtype=np.int64).reshape(-1, 4)
        self._left: dict[str, Ints] = {"pods": _column(self._rooms, "pods", MOST)}
        self._fitting_gpus: dict[int, Ints] = {}
        self._touched: set[int] = set()

    def touch(self, name: str) -> None:
        """Its room has changed."""
        self._touched.add(self._place[name])

    def without(self, names: Iterable[str]) -> Flags:
        """All nodes but these."""
        mask = np.ones(len(self._names), dtype=bool)
        mask[[self._place[name] for name in names]] = False
        return mask

    def names_of(self, mask: Flags) -> tuple[str, ...]:
        return tuple(self._names[at] for at in np.flatnonzero(mask))

    def allowed(self, pod: Pod, demand: Demand) -> Flags:
        """Nodes that the pod's fixed wishes and the make of its GPUs allow, whether or not they have room."""
        ok = [not self._fitting.static_reasons(pod, self._rooms[at].node) for at in self._example]
        mask: Flags = np.array(ok, dtype=bool)[self._kind] if ok else np.zeros(0, dtype=bool)
        return mask & (self._resource == demand.gpu_resource) if demand.gpus else mask

    def with_room(self, demand: Demand, allowed: Flags) -> Flags:
        """Of the allowed nodes those whose numbers suffice; a superset of those that take the pod."""
        self._refresh()
        mask = allowed & (self._left["pods"] >= 1)
        for name, amount in demand.resources:
            mask &= self._column(name, 0) >= amount
        if demand.gpus:
            mask &= self._count_fitting(demand) >= demand.gpus
        return mask

    def count_by_resources(self, demand: Demand, mask: Flags) -> Ints:
        """By node under the mask: how many pods of the demand its resources suffice for, GPUs aside."""
        self._refresh()
        most: Ints = np.where(mask, self._left["pods"], 0)
        for name, amount in demand.resources:
            np.minimum(most, self._column(name, 0) // amount, out=most)
        return np.maximum(most, 0) * mask

    def by_tightness(self, mask: Flags) -> Iterator[list[str]]:
        """The names under the mask, in groups of equally tight nodes: few idle GPUs first (a CPU pod goes
        off the GPU nodes, else beside GPUs that are taken), then little CPU, memory, few pods."""
        here = np.flatnonzero(mask)
        while len(here):
            tied = here
            for column in range(4):
                values = self._tightness[tied, column]
                tied = tied[values == values.min()]
            yield [self._names[at] for at in tied]
            here = here[~np.isin(here, tied)]

    def _count_fitting(self, demand: Demand) -> Ints:
        known = self._fitting_gpus.get(demand.milli)
        if known is None:
            counts = [_count_fitting(room, demand.milli) for room in self._rooms]
            known = self._fitting_gpus[demand.milli] = np.array(counts, dtype=np.int64)
        return known

    def _column(self, name: str, absent: int) -> Ints:
        if name not in self._left:
            self._left[name] = _column(self._rooms, name, absent)
        return self._left[name]

    def _refresh(self) -> None:
        for at in self._touched:
            room = self._rooms[at]
            self._tightness[at] = _tightness(room)
            for name, column in self._left.items():
                column[at] = _amount(room, name, MOST if name == "pods" else 0)
            for milli, counts in self._fitting_gpus.items():
                counts[at] = _count_fitting(room, milli)
        self._touched.clear()


def _tightness(room: Room) -> tuple[int, ...]:
    return (
        room.idle_milli,
        _amount(room, "cpu", 0),
        _amount(room, "memory", 0),
        len(room.pods),
    )


def _count_fitting(room: Room, milli: int) -> int:
    """GPUs (or, where devices are shared in time, turns) that have so much left."""
    if not room.by_device:
        return _amount(room, room.node.gpu_resource, 0) if milli == WHOLE else 0
    count = sum(1 for at in room.usable if room.gpu_left[at] >= milli)
    return min(count, _amount(room, room.node.gpu_resource, 0)) if room.counts_units else count


def _amount(room: Room, name: str, absent: int) -> int:
    return max(-MOST, min(room.left.get(name, absent), MOST))


def _column(rooms: list[Room], name: str, absent: int) -> Ints:
    return np.array([_amount(room, name, absent) for room in rooms], dtype=np.int64)
