"""How many pods of each shape each node could take, for all nodes and shapes at once.

The numbers of `capacity`, worked out on arrays: a cluster with hundreds of shapes asks for a hundred
thousand of them. Not in here: what the program makes of them (free_nodes_classes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from apps.planner.capacity import MANY, Capacity, Shape, count_by_devices, describe_capacity
from apps.planner.host_rules import HostRules
from apps.planner.placement import Board
from apps.planner.resources import Demand
from apps.planner.rooms import Room

Ints = npt.NDArray[np.int64]


class ArrivalTable:
    """most: nodes x shapes, how many fit alone; all 0 on a node that takes no GPU pods. shapes: with what
    the rules that one node answers by itself count."""

    def __init__(self, board: Board, shapes: Sequence[Shape], is_late: Callable[[], bool]) -> None:
        self.board, self.rules = board, HostRules(board, shapes)
        self.shapes = shapes = self.rules.shapes
        self.names = list(board.held.by_node)
        self._rooms = list(board.held.by_node.values())
        self._by_devices: dict[Demand, Ints] = {}
        self.most: Ints = np.zeros((len(self.names), len(shapes)), dtype=np.int64)
        for at, shape in enumerate(shapes):
            if is_late():
                break
            self.most[:, at] = self._count(shape)
        resources = sorted({name for shape in shapes for name, _ in shape.demand.resources} | {"pods"})
        self._amounts = {
            name: np.array([shape.amount(name) for shape in shapes], dtype=np.float64)
            for name in (*resources, *self.rules.left)
        }
        self._milli = np.array([shape.demand.gpu_milli for shape in shapes], dtype=np.float64)
        self._is_share = np.array([shape.is_share for shape in shapes], dtype=bool)

    def _count(self, shape: Shape) -> Ints:
        demand, board = shape.demand, self.board
        mask = board.roomy_nodes(shape.pod)
        blocked = self.rules.blocked(shape.pod)
        if blocked is not None:
            mask = mask & ~blocked
        most: Ints = np.minimum(board.table.count_by_resources(demand, mask), MANY)
        for name, amount in shape.besides:
            most = np.minimum(most, self.rules.left[name] // amount)
        if demand.gpus:
            most = np.minimum(most, self._count_devices(demand, mask))
        return most

    def _count_devices(self, demand: Demand, mask: npt.NDArray[np.bool_]) -> Ints:
        """Remembered per wish about devices: shapes differ in CPU and memory far more often."""
        key = Demand((), demand.gpu_resource, demand.gpus, demand.milli, demand.link, (), demand.memory_mib)
        known = self._by_devices.get(key)
        if known is None:
            known = self._by_devices[key] = np.full(len(self.names), -1, dtype=np.int64)
        for at in np.flatnonzero(mask & (known < 0)):
            room = self._rooms[at]
            known[at] = count_by_devices(room, key) if room.fits(key) else 0
        return np.maximum(known, 0)

    def capacity(self, at: int) -> Capacity:
        """Of the node at that place; resources that cannot run short are left out."""
        room, most = self._rooms[at], self.most[at]
        coming = np.flatnonzero(most)
        counts = tuple(most.tolist())
        if not len(coming):
            return Capacity((), (), counts)
        left = [
            (name, max(have, 0))
            for name, amounts in self._amounts.items()
            if (have := self._left(at, name)) is not None
            and self._could_use(room, amounts[coming], most[coming], coming) > have
        ]
        return describe_capacity(room, left, counts, bool(self._is_share[coming].any()))

    def _left(self, at: int, name: str) -> int | None:
        """None where there is no limit."""
        if name in self.rules.left:
            return int(self.rules.left[name][at])
        left = self._rooms[at].left
        return left.get(name) if name == "pods" else left.get(name, 0)

    def _could_use(self, room: Room, amounts: npt.NDArray[np.float64], most: Ints, coming: Ints) -> int:
        """An upper bound on what all arrivals together could use of a resource, from the GPUs they need."""
        milli = self._milli[coming] if room.by_device else np.zeros(len(coming))
        on_devices = milli > 0
        free = float((amounts * most)[~on_devices].sum())
        rates = amounts[on_devices] / milli[on_devices]
        rate = float(rates.max()) if len(rates) else 0.0
        return int(free) + int(rate * (room.idle_milli if room.by_device else 0) + 0.999999)
