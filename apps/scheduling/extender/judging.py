"""Every node's verdict on a shape, remembered: only nodes that changed since are judged again.

A shape is all that the rules and the points ask of a pod; pods of one shape share one table. A row is judged
when it is offered and its node has another version than the one it was judged at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.planner.fitting import wish_reasons
from apps.planner.inventory import Pod
from apps.planner.resources import Demand, demand_of
from apps.planner.room import Room
from apps.scheduling.extender.picture import Ints, Picture
from apps.scheduling.extender.policies import Floats, ScorePolicy
from apps.scheduling.extender.rules import UNKNOWN_NODE, Refusal, refuse

MOST_SHAPES = 512
TAKES = 0
"""The code of a node that takes the pod; others are numbers of refusals."""
NEVER = -1


@dataclass(slots=True)
class Judged:
    """One shape's table, by row. version: at which the code holds; scored: at which the points hold."""

    pod: Pod
    demand: Demand
    code: Ints
    version: Ints
    points: Floats
    scored: Ints


class Judge:
    """refusals: by code; the first stands for none."""

    def __init__(self, picture: Picture, policy: ScorePolicy, *, spare_drifted: bool = True) -> None:
        self.picture, self.policy = picture, policy
        self._spare_drifted = spare_drifted
        self.refusals: list[Refusal] = [Refusal("", "", False)]
        self._codes: dict[Refusal, int] = {}
        self.unknown = self._code(Refusal("", UNKNOWN_NODE, True))
        self._shapes: OrderedDict[tuple[object, ...], Judged] = OrderedDict()

    def judge(self, pod: Pod, rows: Ints) -> Judged:
        """The shape's table, with the codes of these rows up to date."""
        judged = self._table(pod)
        stale = rows[judged.version[rows] != self.picture.version[rows]]
        for row in stale.tolist():
            room = self.picture.rooms[row]
            if room is None:
                judged.code[row] = self.unknown
            else:
                judged.code[row] = self._code(self._refuse(judged.pod, judged.demand, room))
        judged.version[stale] = self.picture.version[stale]
        return judged

    def score(self, judged: Judged, rows: Ints) -> Floats:
        """Points of rows that take the pod."""
        stale = rows[judged.scored[rows] != self.picture.version[rows]]
        if len(stale):
            judged.points[stale] = self.policy.points(judged.pod, judged.demand, stale)
            judged.scored[stale] = self.picture.version[stale]
        points: Floats = judged.points[rows]
        return points

    def forget_points(self) -> None:
        """The policy gives other points by now."""
        for judged in self._shapes.values():
            judged.scored[:] = NEVER

    def refusal_of(self, pod: Pod, name: str, *, without: Sequence[str] = ()) -> Refusal | None:
        """Of a node as if the pod itself had no place there, nor these. Nothing is remembered."""
        room = self.picture.room_without(name, (pod.uid, *without))
        if room is None:
            return self.refusals[self.unknown]
        demand = demand_of(pod, self.picture.gpu_names)
        return self._refuse(pod, demand, room)

    def _refuse(self, pod: Pod, demand: Demand, room: Room) -> Refusal | None:
        # The card's own memory is asked, whatever of it is reserved.
        unmet = tuple(wish_reasons(self.picture.wish(pod), self.picture.nodes[room.node.name]))
        return refuse(pod, demand, room, spare_drifted=self._spare_drifted, unmet=unmet)

    def _table(self, pod: Pod) -> Judged:
        demand = demand_of(pod, self.picture.gpu_names)
        key = (demand, tuple(sorted(pod.node_selector.items())), pod.node_terms, self.picture.wish(pod))
        judged = self._shapes.get(key)
        if judged is None:
            size = len(self.picture.version)
            judged = Judged(pod, demand, *_arrays(size))
            self._shapes[key] = judged
            if len(self._shapes) > MOST_SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
            if len(judged.code) < len(self.picture.version):
                _widen(judged, len(self.picture.version))
        return judged

    def _code(self, refusal: Refusal | None) -> int:
        if refusal is None:
            return TAKES
        code = self._codes.get(refusal)
        if code is None:
            code = self._codes[refusal] = len(self.refusals)
            self.refusals.append(refusal)
        return code


def _arrays(size: int) -> tuple[Ints, Ints, Floats, Ints]:
    never: npt.NDArray[np.int64] = np.full(size, NEVER, dtype=np.int64)
    return np.zeros(size, dtype=np.int64), never, np.zeros(size), never.copy()


def _widen(judged: Judged, size: int) -> None:
    code, version, points, scored = _arrays(size - len(judged.code))
    judged.code = np.concatenate([judged.code, code])
    judged.version = np.concatenate([judged.version, version])
    judged.points = np.concatenate([judged.points, points])
    judged.scored = np.concatenate([judged.scored, scored])
