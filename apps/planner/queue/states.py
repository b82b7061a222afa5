"""What each node would have left after some of its pods moved away: tables of numbers over all such states.

A state is a node and a set of pods that leave it. Small sets come first; where they are too many to list,
the sets that empty the cheapest devices are added. Not in here: what is worth starting (filling, prices).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import gcd

import numpy as np
import numpy.typing as npt

from apps.planner.capacity import shape_key
from apps.planner.clearing import Counts, group_pods, needs_target, share_out
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.queue.wishes import Wish
from apps.planner.resources import Demand, asks_gpu
from apps.planner.rooms import WHOLE, Room

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MOST_SETS, MOST_SETS_IN_STAGES = 300, 100
PODS = "pods"
UNITS = "units of GPUs"
AMPLE = 2**50
LEAST_UNIT = 10
"""Milli-GPU by which shares are counted, at least."""


@dataclass(frozen=True, slots=True)
class NodeStates:
    """One node. guests: pods that could leave, groups of equal ones side by side, the cheapest first in each.
    kinds: their shapes by number. chosen: one row per state, who leaves. left: resources by state.
    devices: milli left by state and device. wishes: by number, those that may run there. is_complete:
    whether every set of guests within the moves has a state."""

    name: str
    guests: tuple[Pod, ...]
    kinds: Ints
    chosen: Flags
    left: Ints
    devices: Ints
    wishes: tuple[int, ...]
    is_complete: bool

    def victims(self, row: int) -> tuple[Pod, ...]:
        return tuple(pod for pod, leaves in zip(self.guests, self.chosen[row], strict=True) if leaves)


class StateTable:
    """All nodes' states for these wishes. kinds: the shapes of the pods that could leave. unit: milli by
    which all shares of the wishes (and of the kinds, if that is no less than LEAST_UNIT) can be divided."""

    def __init__(
        self,
        board: Board,
        wishes: Sequence[Wish],
        most_moves: int,
        stages: int,
        is_late: Callable[[], bool],
    ) -> None:
        self.board = board
        self.wishes = wishes
        self.resources = sorted(
            {name for wish in wishes for name, _ in wish.demand.resources} | {PODS, UNITS}
        )
        self.kinds: dict[Hashable, int] = {}
        self.examples: list[Pod] = []
        self.unit = gcd(WHOLE, *(wish.demand.milli for wish in wishes))
        self.nodes: list[NodeStates] = []
        self.odd: list[str] = []
        self.is_complete = True
        self._linked = any(wish.demand.link is not None for wish in wishes)
        self._most_moves = most_moves
        self._may_go = asks_gpu if stages > 1 else needs_target
        for name, room in board.final.by_node.items():
            mine = tuple(at for at, wish in enumerate(wishes) if name in wish.nodes)
            if not mine:
                continue
            if is_late():
                self.is_complete = False
                break
            if room.by_device:
                self._add(name, room, mine)
            else:
                self.odd.append(name)
        for pod in self.examples:
            unit = gcd(self.unit, board.final.demand(pod).milli)
            self.unit = unit if unit >= LEAST_UNIT else self.unit

    def price_places(self) -> list[float]:
        """By kind: its milli-GPU, what a place for one may cost at first; 0 where it could go to places that
        the tables do not count: then a bound would be too low if it cost anything."""
        milli = [self.board.final.demand(pod).gpu_milli for pod in self.examples]
        return [
            0.0 if self._has_places_outside(pod) else float(one)
            for pod, one in zip(self.examples, milli, strict=True)
        ]

    def _has_places_outside(self, pod: Pod) -> bool:
        if self.board.final.demand(pod).milli % self.unit:
            return True
        counted = {node.name for node in self.nodes} | self.board.closed
        return not counted.issuperset(self.board.table.names_of(self.board.roomy_nodes(pod)))

    def amounts(self, demand: Demand) -> tuple[int, ...]:
        """Of each resource, what one pod takes."""
        known = {**dict(demand.resources), PODS: 1, UNITS: demand.gpus}
        return tuple(known.get(name, 0) for name in self.resources)

    def left_of(self, room: Room) -> list[int]:
        units = room.left.get(room.node.gpu_resource, 0) if room.counts_units else AMPLE
        known = {PODS: AMPLE, **room.left, UNITS: units}
        return [known.get(name, 0) for name in self.resources]

    def _add(self, name: str, room: Room, mine: tuple[int, ...]) -> None:
        found = group_pods(self.board, name, self._linked, self._may_go)
        groups = [group for group in found if self._helps(group[0])]
        guests = tuple(pod for group in groups for pod in group)
        group_of = np.array([at for at, group in enumerate(groups) for _ in group], dtype=np.int64)
        rank = np.array([at for group in groups for at in range(len(group))], dtype=np.int64)
        sizes = tuple(len(group) for group in groups)
        most_sets = MOST_SETS_IN_STAGES if self._may_go is asks_gpu else MOST_SETS
        counts, is_complete = list_counts(sizes, min(self._most_moves, len(guests)), most_sets)
        chosen = counts[:, group_of] > rank if guests else np.zeros((1, 0), dtype=bool)
        self.is_complete = self.is_complete and is_complete
        seats = self._seats(room, guests)
        if not is_complete:
            chosen = np.unique(np.vstack([chosen, *self._emptyings(guests, seats, group_of)]), axis=0)
            chosen = chosen[np.argsort(chosen.sum(axis=1), kind="stable")]
            chosen = chosen[chosen.sum(axis=1) <= self._most_moves]
        gives = np.array([self.amounts(self.board.final.demand(pod)) for pod in guests], dtype=np.int64)
        left = np.array(self.left_of(room), dtype=np.int64) + chosen @ gives.reshape(-1, len(self.resources))
        devices = np.array([room.gpu_left[at] for at in room.usable], dtype=np.int64) + chosen @ seats
        kinds = np.array([self._kind(pod) for pod in guests], dtype=np.int64)
        self.nodes.append(NodeStates(name, guests, kinds, chosen, left, devices, mine, is_complete))

    def _seats(self, room: Room, guests: Sequence[Pod]) -> Ints:
        place = {at: column for column, at in enumerate(room.usable)}
        seats = np.zeros((len(guests), len(place)), dtype=np.int64)
        for row, pod in enumerate(guests):
            for at, milli, _ in room.taken[pod.uid]:
                if at in place:
                    seats[row, place[at]] += milli
        return seats

    def _helps(self, pod: Pod) -> bool:
        demand = self.board.final.demand(pod)
        return bool(demand.gpus) or any(name in self.resources for name, _ in demand.resources)

    def _kind(self, pod: Pod) -> int:
        at = self.kinds.setdefault(shape_key(self.board, pod), len(self.kinds))
        if at == len(self.examples):
            self.examples.append(pod)
        return at

    def _emptyings(self, guests: Sequence[Pod], seats: Ints, group_of: Ints) -> Iterator[Flags]:
        """The devices with the fewest guests, one more each time, beside some of the others' largest pods."""
        holds = seats > 0
        order = np.argsort(holds.sum(axis=0), kind="stable")
        others = [at for at, pod in enumerate(guests) if not asks_gpu(pod)]
        others.sort(key=lambda at: (-guests[at].requests.get("cpu", 0), group_of[at], at))
        for number in range(1, len(order) + 1):
            leaving: Flags = np.any(holds[:, order[:number]], axis=1)
            for more in range(min(len(others), 3) + 1):
                row = leaving.copy()
                row[others[:more]] = True
                yield row.reshape(1, -1)


@lru_cache(maxsize=4096)
def list_counts(sizes: Counts, most: int, most_sets: int) -> tuple[Ints, bool]:
    """How many of each group leave: small sets first; whether all of up to `most` pods are listed."""
    found: list[Counts] = []
    for total in range(most + 1):
        found += islice(share_out(total, sizes), most_sets + 1 - len(found))
        if len(found) > most_sets:
            return np.array(found[:most_sets], dtype=np.int64), False
    return np.array(found, dtype=np.int64).reshape(len(found), len(sizes)), True
