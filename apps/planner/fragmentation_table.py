"""FGD's measure of all nodes, kept up as they change: what has not changed is not scored again.

The rooms belong to the caller; `update` says that one has changed, `undo` takes that back. Not in here: what
is wanted and how a node is scored (fragmentation_sheets), the report (fragmentation).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from apps.planner.fragmentation_sheets import NEVER, Ints, Sheets
from apps.planner.rooms import Room
from apps.planner.workload import Workload


@dataclass(frozen=True, slots=True)
class Former:
    """How a node was scored before an update. left: of its GPUs, the fullest last."""

    row: int
    cpu: int
    left: tuple[int, ...]
    causes: tuple[int, ...]


class FragmentationTable:
    """rooms: as they are; workload: what is wanted. Sums are counts x milli-GPU; by cause in the order of
    CAUSES. A node's GPUs neither come nor go, nor does its model change."""

    def __init__(self, rooms: Iterable[Room], workload: Workload) -> None:
        self._rooms = list(rooms)
        self._row = {room.node.name: row for row, room in enumerate(self._rooms)}
        self.sheets = Sheets(workload, (room.node for room in self._rooms))
        self._kind = self.sheets.kinds
        self._width = max((len(room.gpu_left) for room in self._rooms), default=0) or 1
        self._places = np.array(
            [
                row * self._width + at
                for row, room in enumerate(self._rooms)
                for at in range(len(room.gpu_left))
            ],
            dtype=np.int64,
        )
        self.refresh()

    @property
    def weight_total(self) -> int:
        return self.sheets.weight_total

    @property
    def numerator(self) -> int:
        """Sum over nodes and specs of count x F_n(m); the cluster's F is this by `weight_total`."""
        return self._lost

    @property
    def idle_milli(self) -> int:
        return int(self._left.sum())

    @property
    def causes(self) -> Ints:
        """Per node (rows, as the rooms were given); not to be written to."""
        return self._causes

    def lost_on(self, name: str) -> int:
        """F of one node, times `weight_total`."""
        return int(self._causes[self._row[name], :-1].sum())

    def stranded(self) -> Ints:
        """Milli of each node that no spec can use."""
        return self.sheets.stranded(self._kind, self._cpu, self._left)

    def refresh(self) -> None:
        """Read all rooms anew and score them."""
        taken = np.zeros(len(self._rooms) * self._width, dtype=np.int64)
        taken[self._places] = list(chain.from_iterable([room.gpu_left for room in self._rooms]))
        np.negative(taken, out=taken)
        self._left = -np.sort(taken.reshape(-1, self._width), axis=1)
        self._cpu = _cpu_column(self._rooms)
        self.score_all()

    def score_all(self) -> None:
        """Score all nodes, as they were read last."""
        self._causes = self.sheets.score_all(self._kind, self._cpu, self._left)
        self._lost = int(self._causes[:, :-1].sum())

    def would_lose(self, name: str, cpu: int, gpu_left: Sequence[int]) -> int:
        """F of a node, times `weight_total`, if so much were left on it. Nothing changes."""
        causes = self.sheets.score(self._kind_at(self._row[name]), cpu, sorted(gpu_left, reverse=True))
        return sum(causes[:-1])

    def update(self, name: str) -> Former:
        """The room of this node has changed. The answer takes it back (`undo`), latest update first."""
        row = self._row[name]
        room = self._rooms[row]
        cpu = _cpu_of(room)
        left = sorted(room.gpu_left, reverse=True)
        causes = self.sheets.score(self._kind_at(row), cpu, left)
        former = Former(
            row,
            int(self._cpu[row]),
            tuple(self._left[row, : len(left)].tolist()),
            tuple(self._causes[row].tolist()),
        )
        self._write(row, cpu, left, causes)
        return former

    def undo(self, former: Former) -> None:
        """The room has been given back what `update` found it without, or the other way round."""
        self._write(former.row, former.cpu, former.left, former.causes)

    def _kind_at(self, row: int) -> int:
        return int(self._kind[row])

    def _write(self, row: int, cpu: int, left: Sequence[int], causes: tuple[int, ...]) -> None:
        self._lost += sum(causes[:-1]) - int(self._causes[row, :-1].sum())
        self._cpu[row] = cpu
        self._left[row, : len(left)] = left
        self._causes[row] = causes


def _cpu_column(rooms: list[Room]) -> Ints:
    try:
        return np.array([room.left.get("cpu", 0) for room in rooms], dtype=np.int64)
    except OverflowError:
        return np.array([_cpu_of(room) for room in rooms], dtype=np.int64)


def _cpu_of(room: Room) -> int:
    return max(-NEVER, min(room.left.get("cpu", 0), NEVER - 1))
