"""The scoring policies behind one interface: points for nodes that take the pod, most points win.

`packing` is the console's own score (apps.planner.whatif_scores) with the host's balance beside it; `fgd` and
`demand-fit` are the policies of the replay (apps.planner.replay), fed with the cluster as it is.
Not in here: how points become 0 to 10 (scores), who takes the pod at all (rules).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from apps.planner.inventory import Node, Pod
from apps.planner.mig.nodes import asked_profiles
from apps.planner.naming import PRODUCT_LABELS
from apps.planner.replay.asks import Ask
from apps.planner.replay.demand_fit import DemandFit
from apps.planner.replay.fgd import Fgd
from apps.planner.replay.nodes import EmptyNode, NodeTable
from apps.planner.resources import Demand
from apps.planner.room import WHOLE, Room
from apps.planner.whatif_scores import ScorePart, score_node
from apps.planner.workload import Workload
from apps.scheduling.extender.host_balance import host_part
from apps.scheduling.extender.picture import Picture

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class ScorePolicy(Protocol):
    name: str

    def aim(self, workload: Workload) -> bool:
        """Another target workload from now on. Whether that changes its points."""

    def points(self, pod: Pod, demand: Demand, rows: Ints) -> Floats:
        """Of rows of the picture whose nodes take the pod. The same state earns the same points."""

    def explain(self, pod: Pod, demand: Demand, row: int) -> tuple[ScorePart, ...]:
        """The parts that the points of one row add up to."""

    def device(self, pod: Pod, demand: Demand, row: int) -> int | None:
        """The position of the GPU that the points of a share stand for, None where they name none."""


class PackingScore:
    name = "packing"

    def __init__(self, picture: Picture, workload: Workload) -> None:
        self._picture = picture

    def aim(self, workload: Workload) -> bool:
        return False

    def points(self, pod: Pod, demand: Demand, rows: Ints) -> Floats:
        rooms, has_mig = self._picture.rooms, bool(asked_profiles(pod))
        found = np.zeros(len(rows))
        for at, row in enumerate(rows.tolist()):
            room = rooms[row]
            if room is not None:
                found[at] = score_node(room, demand, has_mig=has_mig)[0] + host_part(room, demand).points
        return found

    def explain(self, pod: Pod, demand: Demand, row: int) -> tuple[ScorePart, ...]:
        room = self._picture.rooms[row]
        if room is None:
            return ()
        parts = score_node(room, demand, has_mig=bool(asked_profiles(pod)))[1]
        return (*parts, host_part(room, demand))

    def device(self, pod: Pod, demand: Demand, row: int) -> int | None:
        return None


class ReplayScore:
    """One of the replay's policies over the live picture: a table with the picture's rows, brought up to date
    row by row before it is asked."""

    def __init__(self, picture: Picture, workload: Workload, policy: type[Fgd]) -> None:
        self.name = policy.name
        self._picture, self._workload, self._kind = picture, workload, policy
        self._begin()

    def aim(self, workload: Workload) -> bool:
        self._keep_up()
        self._workload = workload
        self._policy = self._kind(self._table, workload)
        return True

    def points(self, pod: Pod, demand: Demand, rows: Ints) -> Floats:
        self._keep_up()
        ask = ask_of(demand)
        found = np.zeros(len(rows))
        able = self._table.fits(ask, rows)
        if able.any():
            found[able] = self._policy.score(ask, rows[able]).points
        return found

    def explain(self, pod: Pod, demand: Demand, row: int) -> tuple[ScorePart, ...]:
        points = float(self.points(pod, demand, np.array([row], dtype=np.int64))[0])
        return (ScorePart(self.name, points, "for what the wanted shapes can still use once it runs"),)

    def device(self, pod: Pod, demand: Demand, row: int) -> int | None:
        self._keep_up()
        ask, rows = ask_of(demand), np.array([row], dtype=np.int64)
        if not ask.is_part or not self._table.fits(ask, rows).all():
            return None
        devices = self._policy.score(ask, rows).devices
        return None if devices is None else int(devices[0])

    def _begin(self) -> None:
        """A new table: the picture has other nodes than before."""
        rooms = self._picture.rooms
        self._rooms = len(rooms)
        self._shapes = [_empty(None if room is None else room.node) for room in rooms]
        self._table = NodeTable(self._shapes)
        self._known = np.zeros(len(rooms), dtype=np.int64)
        for row, room in enumerate(rooms):
            self._fill(row, room)
        self._policy = self._kind(self._table, self._workload)
        self._known[:] = self._picture.version[: len(rooms)]

    def _keep_up(self) -> None:
        rooms = self._picture.rooms
        if len(rooms) != self._rooms:
            self._begin()
            return
        version = self._picture.version[: self._rooms]
        changed = np.flatnonzero(version != self._known).tolist()
        if any(_empty(_node_of(rooms[row])) != self._shapes[row] for row in changed):
            self._begin()
            return
        for row in changed:
            self._fill(row, rooms[row])
            self._policy.refresh(row)
            self._known[row] = version[row]

    def _fill(self, row: int, room: Room | None) -> None:
        table = self._table
        left = [0] * table.gpu.shape[1]
        if room is None:
            table.cpu[row] = table.memory[row] = table.pods_left[row] = 0
        else:
            left[: len(room.gpu_left)] = room.gpu_left
            table.cpu[row] = room.left.get("cpu", 0)
            table.memory[row] = room.left.get("memory", 0) >> 20
            table.pods_left[row] = room.left.get("pods", 1)
        table.gpu[row] = left
        table.idle[row], table.whole[row], table.most[row] = sum(left), left.count(WHOLE), max(left)


def _node_of(room: Room | None) -> Node | None:
    return None if room is None else room.node


def _empty(node: Node | None) -> EmptyNode:
    if node is None:
        return EmptyNode("", 0, 0, 0)
    model = next((node.labels[key] for key in PRODUCT_LABELS if key in node.labels), node.model)
    offered = node.allocatable
    return EmptyNode(node.name, offered.get("cpu", 0), offered.get("memory", 0) >> 20, len(node.gpus), model)


def ask_of(demand: Demand) -> Ask:
    asked = dict(demand.resources)
    return Ask(asked.get("cpu", 0), asked.get("memory", 0) >> 20, demand.milli, demand.gpus)


Maker = Callable[[Picture, Workload], ScorePolicy]


def _replayed(policy: type[Fgd]) -> Maker:
    return lambda picture, workload: ReplayScore(picture, workload, policy)


POLICIES: Mapping[str, Maker] = {
    PackingScore.name: PackingScore,
    Fgd.name: _replayed(Fgd),
    DemandFit.name: _replayed(DemandFit),
}
