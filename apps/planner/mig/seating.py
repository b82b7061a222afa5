"""Pods by name on nodes by name, for a choice of layouts: moved pods first, then those that wait.

A moved pod needs room before the first eviction: on an instance that is idle now, or on a GPU that
nobody uses and that is relaid before. Not in here: which GPUs to relay (choosing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

from apps.planner.fitting import Fitting, interpod_words
from apps.planner.inventory import Pod
from apps.planner.mig.blocks import Block, Choice
from apps.planner.mig.facts import MigFacts
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.mig.rooms_on_demand import RoomsOnDemand
from apps.planner.mig.stock import Stock
from apps.planner.placement import PlannedMove

Planned = Mapping[str, Sequence[Counter[str]]]


class Seating:
    """early, final: idle instances by node, while pods move and when all is done."""

    def __init__(self, facts: MigFacts, choice: Choice) -> None:
        self.facts, self.choice = facts, choice
        self.held, self.rooms = RoomsOnDemand(facts.snapshot), RoomsOnDemand(facts.snapshot)
        self.fitting = Fitting(self.rooms)
        self.early, self.final = Stock(facts.groups), Stock(facts.groups)
        self.closed: set[str] = set()
        self.moves: list[PlannedMove] = []
        self.started: list[tuple[Pod, str]] = []
        drained = set(choice.drained)
        for key, seat in facts.seats.items():
            left = seat.block.idle
            if key in drained or key in choice.relaid:
                left = _left_after(seat.block, choice, is_drained=key in drained)
            for profile, number in left.items():
                self.final.add(seat.node.name, profile, number)
                if key not in drained:
                    self.early.add(seat.node.name, profile, number)
            if key in drained:
                self.closed.add(seat.node.name)

    def move_all(self, pods: Sequence[Pod]) -> Pod | None:
        """Puts every pod elsewhere; the one that finds no place, or None. Least flexible first."""
        ordered = sorted(pods, key=lambda pod: (len(self.facts.allowed_groups(pod)), pod.uid))
        for pod in ordered:
            self.rooms.by_node[pod.node_name]
            self.rooms.remove(pod)
        for pod in ordered:
            closed = {*self.closed, pod.node_name}
            planned = self._planned_for(pod)
            target = self._find(pod, self.early, self.held, closed, frozenset(+planned))
            target = target or self._find(pod, self.early, self.held, closed)
            if target is None:
                return pod
            planned[self.facts.groups[target]] -= 1
            self._take(pod, target)
            self.moves.append(PlannedMove(pod, pod.node_name, target))
        return None

    def _planned_for(self, pod: Pod) -> Counter[str]:
        """How many pods like this one are to arrive in each group."""
        shape = self.facts.shape_of(pod)
        return self.choice.arrivals.setdefault(shape, Counter()) if shape else Counter()

    def start(self, pods: Sequence[Pod], planned: Planned | None = None) -> bool:
        """Pending pods that start together or not at all.

        planned: by pod, for each profile it asks for, how many instances each group has for pods like it;
        None: they may start wherever there is one.
        """
        mark, begun = self.rooms.checkpoint(), len(self.started)
        for pod in sorted(pods, key=lambda pod: (-sum(asked_profiles(pod).values()), pod.uid)):
            groups = self.facts.allowed_groups(pod)
            for quota, number in _quotas(pod, planned):
                groups &= {group for group, left in quota.items() if left >= number}
            target = self._find(pod, self.final, self.rooms, (), groups)
            if target is None:
                self._give_back(begun, mark, planned)
                return False
            self.rooms.place(pod, target)
            self._count_start(pod, target, planned, -1)
            self.started.append((pod, target))
        return True

    def _give_back(self, begun: int, mark: int, planned: Planned | None) -> None:
        for done, name in self.started[begun:]:
            self._count_start(done, name, planned, 1)
        del self.started[begun:]
        self.rooms.undo(mark)

    def _count_start(self, pod: Pod, node: str, planned: Planned | None, sign: int) -> None:
        _add(self.final, node, pod, sign)
        for quota, number in zip(
            planned[pod.uid] if planned else (), asked_profiles(pod).values(), strict=False
        ):
            quota[self.facts.groups[node]] += sign * number

    def _take(self, pod: Pod, target: str) -> None:
        _add(self.early, target, pod, -1)
        _add(self.final, target, pod, -1)
        room = self.held.by_node[target]
        room.add(pod, self.held.demand(pod), ())
        self.rooms.place(pod, target)

    def _find(
        self,
        pod: Pod,
        stock: Stock,
        rooms: RoomsOnDemand,
        closed: Collection[str],
        within: frozenset[str] | None = None,
    ) -> str | None:
        """The node with the fewest idle instances of its profiles that takes it; by name last."""
        groups = self.facts.allowed_groups(pod)
        groups = groups if within is None else groups & within
        with closing(stock.nodes_with(asked_profiles(pod), groups)) as names:
            for name in names:
                if name not in closed and self._has_room(pod, name, rooms) and self._is_welcome(pod, name):
                    return name
        return None

    def _has_room(self, pod: Pod, name: str, rooms: RoomsOnDemand) -> bool:
        """Instances are counted here, all else by the ledger of the node."""
        short = rooms.by_node[name].shortages(rooms.demand(pod))
        return not [resource for resource in short if not resource.startswith(MIG_PREFIX)]

    def _is_welcome(self, pod: Pod, name: str) -> bool:
        if not self.fitting.needs_neighbours(pod):
            return True
        self.rooms.lay_out_all()
        return not interpod_words(self.rooms, pod, self.facts.snapshot.nodes[name])


def _quotas(pod: Pod, planned: Planned | None) -> list[tuple[Counter[str], int]]:
    quotas = planned.get(pod.uid, ()) if planned is not None else ()
    return list(zip(quotas, asked_profiles(pod).values(), strict=True)) if quotas else []


def _add(stock: Stock, node: str, pod: Pod, sign: int) -> None:
    for profile, number in asked_profiles(pod).items():
        stock.add(node, profile, sign * number)


def _left_after(block: Block, choice: Choice, *, is_drained: bool) -> Counter[str]:
    """What the block has idle once it is drained and relaid, as far as it is."""
    relaid = choice.relaid.get(block.key, {})
    left = Counter(dict(block.offered) if is_drained else block.idle)
    if relaid and block.together:
        left.clear()
    for at, counts in relaid.items():
        left.subtract(dict(block.gpus[at].counts))
        left.update(dict(counts))
    return left
