"""A gang starts as a whole or not at all: is there room for all who still need a node, and where.

Counted per shape and lazily: nodes are asked one by one until there is room enough. A gang of several shapes
is laid out, the largest first. Not in here: whether one node takes one pod (judging).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from apps.planner.inventory import Gang, LinkClass, Node, Pod
from apps.planner.resources import Demand, demand_of
from apps.planner.room import Room
from apps.planner.selectors import tolerates
from apps.scheduling.extender.judging import TAKES, Judge
from apps.scheduling.extender.picture import Picture

CORDON = "node.kubernetes.io/unschedulable"
ASKED = attrgetter(
    *("requests", "gpu_milli", "gpu_memory_mib", "link", "host_ports", "reservation", "labels"),
    *("node_selector", "node_terms", "tolerations"),
)
"""All of a pod that decides where it may go."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a gang lacks. missing: members that do not exist yet. waiting: those who need a node before it may
    start, the asked pod first. is_unread: nothing is known of the gang itself yet."""

    missing: int
    waiting: tuple[Pod, ...]
    is_unread: bool = False


def need_of(picture: Picture, pod: Pod) -> Need | None:
    """None for a pod that starts by itself, or whose gang has started already."""
    gang = picture.gangs.get(pod.gang) if pod.gang else None
    if pod.gang and gang is None:
        return Need(1, (pod,), is_unread=True)
    least = gang.min_members if gang else 1
    if least <= 1:
        return None
    members = [one for one in picture.members(pod.gang) if not _is_over(one)]
    placed = sum(1 for one in members if one.node_name or picture.assumed.get(one.uid) is not None)
    waiting = [
        one
        for one in members
        if one.uid != pod.uid and not one.node_name and picture.assumed.get(one.uid) is None
    ]
    lacking = least - placed
    if lacking <= 0:
        return None
    able = sorted((one for one in waiting if not one.gates), key=lambda one: (one.created_at, one.uid))
    chosen = (pod, *able[: lacking - 1])
    return Need(lacking - len(chosen), chosen)


def why_not(need: Need, gang: Gang | str, has_room: bool) -> str:
    """What a member is told on every node; "" where the gang may start."""
    name = gang if isinstance(gang, str) else gang.key
    if need.is_unread:
        return f"the gang {name} has not been read yet"
    if need.missing:
        return f"the gang {name} is incomplete: {need.missing} of its members do not exist or are gated"
    if not has_room:
        return f"the gang {name} does not fit as a whole: {len(need.waiting)} members need a node at once"
    return ""


class GangRoom:
    """Whether a gang has room. The last answer is remembered: every member of a gang that has none asks the
    same again, and a large one takes long to lay out."""

    def __init__(self) -> None:
        self._about: tuple[Judge, Mapping[str, object], frozenset[str], int] | None = None
        self._pods: dict[str, Pod] = {}
        self._found = False

    def has_room(self, judge: Judge, pods: Sequence[Pod], kept: Mapping[str, str]) -> bool:
        """Whether all of them can start at once. kept: nodes that are kept for others."""
        picture = judge.picture
        about = (judge, picture.gpu_requests, frozenset(kept), picture.changes)
        if self._about is None or about != self._about or not self._are_known(pods):
            self._found = find_places(judge, pods, kept) is not None
            self._about, self._pods = about, {pod.uid: pod for pod in pods}
        return self._found

    def _are_known(self, pods: Sequence[Pod]) -> bool:
        """Who was refused comes again with another status, and asks for the same."""
        if len(pods) != len(self._pods):
            return False
        return all(
            (known := self._pods.get(pod.uid)) is not None and (known is pod or ASKED(known) == ASKED(pod))
            for pod in pods
        )


def find_places(judge: Judge, pods: Sequence[Pod], kept: Mapping[str, str]) -> list[tuple[Pod, str]] | None:
    """A node for each, the largest first (of equals those with fewer nodes to choose from), each on the
    tightest that takes it; None where there is none for some. Nothing is changed."""
    found, left = _lay_out(judge, pods, kept, is_whole=True)
    return None if left else found


def count_homeless(judge: Judge, pods: Sequence[Pod], kept: Mapping[str, str]) -> int:
    """How many of them find no node while the others take theirs."""
    return _lay_out(judge, pods, kept, is_whole=False)[1]


def _lay_out(
    judge: Judge, pods: Sequence[Pod], kept: Mapping[str, str], *, is_whole: bool
) -> tuple[list[tuple[Pod, str]], int]:
    """Who goes where, and how many have no place. is_whole: end with the first of them."""
    picture = judge.picture
    groups = [(group, _rows_taking(judge, group[0], kept)) for group in _by_shape(picture, pods)]
    groups.sort(key=lambda one: (-demand_of(one[0][0], picture.gpu_names).gpu_milli, len(one[1])))
    trial: dict[int, Room] = {}
    found: list[tuple[Pod, str]] = []
    homeless = 0
    for left, rows in groups:
        demand = demand_of(left[0], picture.gpu_names)
        for row in _tightest_first(picture, rows, trial):
            while left:
                room = _tried(picture, trial, row)
                if not _fits(room, demand):
                    break
                room.add(left[0], demand, room.choose_devices(demand))
                _doubt_links(room, demand)
                found.append((left.pop(0), picture.names[row]))
            if not left:
                break
        homeless += len(left)
        if homeless and is_whole:
            break
    return found, homeless


def _by_shape(picture: Picture, pods: Sequence[Pod]) -> list[list[Pod]]:
    """Alike in all that decides where they may go."""
    groups: dict[object, list[Pod]] = {}
    for pod in sorted(pods, key=lambda one: one.uid):
        asked = (demand_of(pod, picture.gpu_names), tuple(sorted(pod.node_selector.items())), pod.node_terms)
        groups.setdefault((*asked, pod.tolerations, picture.wish(pod)), []).append(pod)
    return list(groups.values())


def _rows_taking(judge: Judge, pod: Pod, kept: Mapping[str, str]) -> list[int]:
    """Rows whose nodes take such a pod now and that its scheduler may use."""
    picture = judge.picture
    rows = np.arange(len(picture.names))
    judged = judge.judge(pod, rows)
    able = []
    for row in np.flatnonzero(judged.code[rows] == TAKES).tolist():
        node, name = picture.nodes.get(picture.names[row]), picture.names[row]
        if node is not None and name not in kept and is_open_to(pod, node):
            able.append(row)
    return able


def _tightest_first(picture: Picture, rows: Sequence[int], trial: Mapping[int, Room]) -> list[int]:
    idle = {row: _idle(trial.get(row) or picture.rooms[row]) for row in rows}
    return sorted(rows, key=lambda row: (idle[row], int(picture.order[row])))


def is_open_to(pod: Pod, node: Node) -> bool:
    """By its cordon and taints, which the scheduler asks by itself for the nodes that it offers."""
    if node.unschedulable and not any(
        one.operator == "Exists" and one.key in ("", CORDON) for one in pod.tolerations
    ):
        return False
    return tolerates(pod, [taint for taint in node.taints if taint.key != CORDON])


def _tried(picture: Picture, trial: dict[int, Room], row: int) -> Room:
    if row not in trial:
        room = picture.rooms[row]
        assert room is not None
        trial[row] = room.copy()
    return trial[row]


def _fits(room: Room, demand: Demand) -> bool:
    return room.fits(demand)


def _doubt_links(room: Room, demand: Demand) -> None:
    """Which devices the kubelet will give is not known: the next one with a wish for links cannot rely on
    them."""
    if demand.gpus and demand.link not in (None, LinkClass.NODE):
        room.located = False


def _idle(room: Room | None) -> int:
    return 0 if room is None else room.idle_milli


def _is_over(pod: Pod) -> bool:
    return pod.terminating or pod.phase in ("Succeeded", "Failed")
