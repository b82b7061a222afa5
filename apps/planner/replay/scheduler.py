"""One scheduler of a replay: asks its policy about nodes that changed, and places pod after pod.

Points are kept per pod shape. A change of a node is written into a log; a shape's points are brought up to
date when the shape is asked next, for the nodes in the log since then. Not in here: the order of arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.planner.replay.arrivals import Draw
from apps.planner.replay.asks import Ask
from apps.planner.replay.nodes import Ints, NodeTable, Seat
from apps.planner.replay.policies import Policy

NO_ROOM = np.iinfo(np.int64).min


@dataclass(slots=True)
class Remembered:
    """One shape's points per row (NO_ROOM where it does not fit), the GPU chosen for a part, and how much
    of the log is worked in."""

    points: Ints
    devices: Ints
    read: int


class Scheduler:
    """draw: serves policies that draw among the fitting nodes."""

    def __init__(self, table: NodeTable, policy: Policy, draw: Draw) -> None:
        self.table, self.policy, self.draw = table, policy, draw
        self._remembered: dict[Ask, Remembered] = {}
        self._changed: list[int] = []
        self._all = np.arange(len(table))

    def choose(self, ask: Ask) -> Seat | None:
        """Where the pod would run, None where nothing has room."""
        known = self.points(ask)
        if self.policy.draws:
            return self._draw(ask, np.flatnonzero(known.points != NO_ROOM))
        row = int(known.points.argmax()) if len(known.points) else -1
        if row < 0 or known.points[row] == NO_ROOM:
            return None
        device = int(known.devices[row])
        return self.policy.seat(ask, row, device if device >= 0 else None)

    def place(self, ask: Ask) -> Seat | None:
        seat = self.choose(ask)
        if seat is not None:
            self.take(seat, ask)
        return seat

    def take(self, seat: Seat, ask: Ask) -> None:
        self.table.take(seat, ask)
        self._note(seat.row)

    def give_back(self, seat: Seat, ask: Ask) -> None:
        self.table.give_back(seat, ask)
        self._note(seat.row)

    def points(self, ask: Ask) -> Remembered:
        """The shape's points, up to date."""
        known = self._remembered.get(ask)
        if known is None:
            size = len(self.table)
            known = Remembered(np.full(size, NO_ROOM), np.full(size, -1, dtype=np.int64), 0)
            self._remembered[ask] = known
            self._update(known, ask, self._all)
        elif known.read < len(self._changed):
            behind = len(self._changed) - known.read
            rows = self._all if behind > len(self._all) else self._rows_since(known.read)
            self._update(known, ask, rows)
        known.read = len(self._changed)
        return known

    def _rows_since(self, read: int) -> Ints:
        return np.array(sorted(set(self._changed[read:])), dtype=np.int64)

    def _update(self, known: Remembered, ask: Ask, rows: Ints) -> None:
        known.points[rows] = NO_ROOM
        rows = rows[self.table.fits(ask, rows)]
        if not len(rows):
            return
        scored = self.policy.score(ask, rows)
        known.points[rows] = scored.points
        if scored.devices is not None:
            known.devices[rows] = scored.devices

    def _note(self, row: int) -> None:
        self._changed.append(row)
        self.policy.refresh(row)

    def _draw(self, ask: Ask, rows: Ints) -> Seat | None:
        if not len(rows):
            return None
        row = int(rows[self.draw.below(len(rows))])
        if not ask.is_part:
            return self.policy.seat(ask, row, None)
        fitting = np.flatnonzero(self.table.gpu[row] >= ask.milli)
        return self.policy.seat(ask, row, int(fitting[self.draw.below(len(fitting))]))
