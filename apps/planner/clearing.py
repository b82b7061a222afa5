"""The smallest sets of pods to move off one node so that waiting pods fit there. Exact for a node.

Not in here: where the moved pods go (placement), which nodes to clear (unlock).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from apps.planner.capacity import shape_key
from apps.planner.inventory import LinkClass, Pod
from apps.planner.placement import Board
from apps.planner.resources import Demand, asks_gpu
from apps.planner.rooms import WHOLE, Room
from apps.planner.selectors import selects_pod
from apps.planner.topology import best_group

MOST_CHECKS = 4000
MOST_CHOICES = 24
SLACK_MOVES = 2
Counts = tuple[int, ...]
Price = tuple[int, float, int]


@dataclass(frozen=True, slots=True)
class Clearing:
    """Moving these pods lets `starts` waiting pods start on the node.

    frees: it takes the last GPU pods off the node.
    """

    node: str
    starts: int
    victims: tuple[Pod, ...]
    cost: float
    frees: bool = False

    @property
    def price(self) -> Price:
        """Moves first, then what they cost, then rather a whole node than part of one."""
        return len(self.victims), self.cost, -int(self.frees)


def needs_target(_: Pod) -> bool:
    """Pods leave only for a place that is free already."""
    return False


def group_pods(
    board: Board, node_name: str, by_device: bool, may_go: Callable[[Pod], bool] = needs_target
) -> list[list[Pod]]:
    """The movable pods of one node in groups of interchangeable ones, cheapest first in each.

    by_device: pods on different GPUs are not interchangeable, since links between GPUs are wanted.
    may_go: who may leave although no place is free for it now.
    """
    room = board.final.by_node[node_name]
    groups: dict[tuple[object, ...], list[Pod]] = {}
    placed = {move.pod.uid for move in board.moves} | {pod.uid for pod, _ in board.started}
    for uid in sorted(room.pods):
        pod = room.pods[uid]
        if uid in placed or not board.may_leave(pod):
            continue
        if not board.has_target(pod, node_name) and not may_go(pod):
            continue
        is_share = 0 < board.final.demand(pod).milli < WHOLE
        places = room.taken[uid] if by_device or is_share else ()
        groups.setdefault((shape_key(board, pod), places), []).append(pod)
    ordered = [sorted(pods, key=lambda pod: (board.cost(pod), pod.uid)) for pods in groups.values()]
    ordered.sort(key=lambda pods: (-board.final.demand(pods[0]).gpu_milli, board.cost(pods[0]), pods[0].uid))
    return ordered


def list_rivals(board: Board, pod: Pod, node_name: str) -> frozenset[str]:
    """uids of the pods there that keep the pod off the node, or that it avoids, whatever room there is."""
    if not board.fitting.needs_neighbours(pod):
        return frozenset()
    room = board.final.by_node[node_name]
    labels = room.node.labels
    return frozenset(
        guest.uid
        for guest in room.pods.values()
        if any(
            term.topology_key in labels and selects_pod(term, owner.namespace, other)
            for owner, other in ((pod, guest), (guest, pod))
            for term in owner.pod_anti_affinity
        )
    )


class NodeClearing:
    """What has to leave one node for one demand. groups: from `group_pods`, if known already. rivals: uids of
    pods that must leave whatever room there is."""

    def __init__(
        self,
        board: Board,
        node_name: str,
        wanted: Demand,
        groups: list[list[Pod]] | None = None,
        rivals: Collection[str] = (),
    ) -> None:
        self.board = board
        self.room: Room = board.final.by_node[node_name]
        self.name = node_name
        self.wanted = wanted
        known = group_pods(board, node_name, wanted.link is not None) if groups is None else groups
        parted = [
            [pod for pod in group if (pod.uid in rivals) is is_rival]
            for group in known
            for is_rival in (True, False)
        ]
        self.rivals = rivals
        self.groups = [
            group for group in parted if group and (group[0].uid in rivals or self._helps(group[0]))
        ]
        self._is_hopeless = len(rivals) > sum(pod.uid in rivals for group in self.groups for pod in group)
        self.sizes = tuple(len(group) for group in self.groups)
        self.is_complete = True

    def find(self, starts: int, most_moves: int, slack: int = SLACK_MOVES) -> list[Clearing]:
        """Inclusion-minimal sets, fewest moves first, then cheapest.

        slack: how many moves more than the fewest a set may need. `is_complete` says afterwards
        whether the search had to stop before all of them were seen.
        """
        self.is_complete = True
        if self._is_hopeless or not self.is_enough(self.sizes, starts):
            return []
        least = tuple(self._least_of(at, starts) for at in range(len(self.groups)))
        if sum(least) > most_moves:
            return []
        if self.is_enough(least, starts):
            return [self._clearing(least, starts)]
        found = self._search(least, starts, most_moves, slack)
        return sorted(
            (self._clearing(counts, starts) for counts in found),
            key=lambda one: (one.price, [pod.uid for pod in one.victims]),
        )

    def _search(self, least: Counts, starts: int, most_moves: int, slack: int) -> list[Counts]:
        found: list[Counts] = []
        for checks, counts in enumerate(self._grow(least, most_moves)):
            if found and sum(counts) > sum(found[0]) + slack:
                break
            if checks > MOST_CHECKS or len(found) >= MOST_CHOICES:
                self.is_complete = False
                break
            if any(all(a <= b for a, b in zip(known, counts, strict=True)) for known in found):
                continue
            if self.is_enough(counts, starts):
                found.append(counts)
        return found

    def is_enough(self, counts: Sequence[int], starts: int) -> bool:
        """Whether `starts` wanted pods fit once the first counts[i] pods of each group i have left."""
        wanted, room = self.wanted, self.room
        leaving = [pod for group, count in zip(self.groups, counts, strict=True) for pod in group[:count]]
        demands = [self.board.final.demand(pod) for pod in leaving]
        for name, amount in wanted.resources:
            back = sum(given for demand in demands for key, given in demand.resources if key == name)
            if room.left.get(name, 0) + back < amount * starts:
                return False
        if "pods" in room.left and room.left["pods"] + len(leaving) < starts:
            return False
        if wanted.ports:
            freed = [port for demand in demands for port in demand.ports]
            if starts > 1 or any(room.ports[port] > freed.count(port) for port in wanted.ports):
                return False
        return self._has_gpus(leaving, demands, starts) if wanted.gpus else True

    def _has_gpus(self, leaving: list[Pod], demands: list[Demand], starts: int) -> bool:
        wanted, room = self.wanted, self.room
        if room.counts_units:
            back = sum(demand.gpus for demand in demands if demand.gpu_resource == wanted.gpu_resource)
            if room.left.get(wanted.gpu_resource, 0) + back < wanted.gpus * starts:
                return False
        return not room.by_device or self._has_devices(leaving, starts)

    def _has_devices(self, leaving: list[Pod], starts: int) -> bool:
        wanted, room = self.wanted, self.room
        left, memory = list(room.gpu_left), list(room.memory_left)
        for pod in leaving:
            for at, milli, mib in room.taken[pod.uid]:
                left[at] += milli
                memory[at] = None if memory[at] is None else (memory[at] or 0) + mib
        if wanted.milli < WHOLE:
            return room.count_shares(wanted, left, memory) >= starts
        free = tuple(at for at in room.usable if left[at] == WHOLE)
        if len(free) < wanted.gpus * starts:
            return False
        if wanted.link in (None, LinkClass.NODE):
            return True
        if not room.located and len(free) < len(room.usable):
            return False
        for _ in range(starts):
            group = best_group(room.node, free, wanted.gpus, wanted.link)
            if group is None:
                return False
            free = tuple(at for at in free if at not in group)
        return True

    def _helps(self, pod: Pod) -> bool:
        """Whether its leaving gives back anything that is wanted."""
        demand, wanted = self.board.final.demand(pod), self.wanted
        names = {name for name, _ in wanted.resources}
        if demand.gpus and wanted.gpus:
            return True
        return any(name in names for name, _ in demand.resources) or bool(
            set(demand.ports) & set(wanted.ports)
        )

    def _least_of(self, at: int, starts: int) -> int:
        """How many of this group must leave even if everybody else does."""
        low, high = 0, self.sizes[at]
        if self.groups[at][0].uid in self.rivals:
            return high
        while low < high:
            middle = (low + high) // 2
            if self.is_enough((*self.sizes[:at], middle, *self.sizes[at + 1 :]), starts):
                high = middle
            else:
                low = middle + 1
        return low

    def _grow(self, least: Counts, most_moves: int) -> Iterator[Counts]:
        spare = tuple(size - low for size, low in zip(self.sizes, least, strict=True))
        base = sum(least)
        for extra in range(1, min(sum(spare), most_moves - base) + 1):
            for added in share_out(extra, spare):
                yield tuple(low + more for low, more in zip(least, added, strict=True))

    def _clearing(self, counts: Counts, starts: int) -> Clearing:
        victims = tuple(
            pod for group, count in zip(self.groups, counts, strict=True) for pod in group[:count]
        )
        gone = {pod.uid for pod in victims if asks_gpu(pod)}
        stays = any(asks_gpu(pod) and uid not in gone for uid, pod in self.room.pods.items())
        cost = sum(self.board.cost(pod) for pod in victims)
        return Clearing(self.name, starts, victims, cost, frees=bool(gone) and not stays)


def share_out(total: int, limits: Counts) -> Iterator[Counts]:
    """Every way to give `total` to places with limits."""
    if not limits:
        if total == 0:
            yield ()
        return
    rest = sum(limits[1:])
    for first in range(min(total, limits[0]), max(0, total - rest) - 1, -1):
        for others in share_out(total - first, limits[1:]):
            yield (first, *others)
