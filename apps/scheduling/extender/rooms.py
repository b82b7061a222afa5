"""Rooms that executions keep on nodes for pods that are still to be made: counted there as if a pod stood in
them, and open to the pod that each is for.

Not in here: which rooms there are (whoever reads the rows), what is answered (deciding).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from apps.planner.inventory import Pod
from apps.scheduling.extender.assumed import Assumed, Cause
from apps.scheduling.extender.judging import Judge
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.rules import Refusal


@dataclass(frozen=True, slots=True)
class Room:
    """pod: a stand-in that asks for what is kept. owner: uid of the workload that makes the real one. until:
    epoch seconds. reason: said to whom it refuses."""

    room_id: int
    node: str
    owner: str
    pod: Pod
    until: float
    reason: str

    def is_for(self, pod: Pod) -> bool:
        """Of the owner's pods those that a migration of ours steers, or that are nominated there."""
        return pod.workload == self.owner and (bool(pod.steering) or pod.nominated_node == self.node)


class KeptRooms:
    """Those that the picture counts by now."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._wanted: dict[str, Room] = {}
        self._kept: dict[str, Room] = {}

    def replace(self, rooms: Iterable[Room]) -> frozenset[int]:
        """Keep these and no others. Returns the ids of those that are kept: a node may not be known yet."""
        self._wanted = {room.pod.uid: room for room in rooms}
        for uid in self._kept.keys() - self._wanted.keys():
            self._picture.release(uid)
        self._kept = {uid: room for uid, room in self._kept.items() if uid in self._wanted}
        self.settle()
        return frozenset(room.room_id for room in self._kept.values())

    def settle(self) -> None:
        """Before anything is answered: a node that has become known since has its rooms from now on."""
        if len(self._kept) == len(self._wanted):
            return
        for uid, room in self._wanted.items():
            if uid not in self._kept:
                self._picture.assume(Assumed(room.pod, room.node, Cause.ROOM, room.until))
                if self._picture.assumed.get(uid) is not None:
                    self._kept[uid] = room

    def judge(self, judge: Judge, pod: Pod, names: Collection[str]) -> dict[str, Refusal | None]:
        """Of the offered nodes with such rooms: None where one is for this pod and it fits, and why not where
        the rooms alone are in its way."""
        by_node: dict[str, list[Room]] = {}
        for room in self._kept.values():
            by_node.setdefault(room.node, []).append(room)
        found: dict[str, Refusal | None] = {}
        for node in by_node.keys() & set(names) if by_node else ():
            own = [room for room in by_node[node] if room.is_for(pod)]
            if own:
                found[node] = judge.refusal_of(pod, node, without=[own[0].pod.uid])
            elif _are_in_the_way(judge, pod, node, by_node[node]):
                found[node] = Refusal("", f"the room is {by_node[node][0].reason}", True)
        return found


def _are_in_the_way(judge: Judge, pod: Pod, node: str, rooms: Sequence[Room]) -> bool:
    if judge.refusal_of(pod, node) is None:
        return False
    return judge.refusal_of(pod, node, without=[room.pod.uid for room in rooms]) is None
