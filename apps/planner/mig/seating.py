"""Pods by name on nodes by name, for a choice of layouts: moved pods first, then those that wait.

A moved pod needs room before the first eviction: on an instance that is idle now, or on a GPU that
nobody uses and that is relaid before. Not in here: which GPUs to relay (choosing).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from apps.planner.fitting import Fitting, interpod_words
from apps.planner.inventory import Pod
from apps.planner.mig.blocks import Choice
from apps.planner.mig.facts import MigFacts
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.placement import PlannedMove
from apps.planner.rooms import Rooms


class Seating:
    """early, final: idle instances by node, while pods move and when all is done."""

    def __init__(self, facts: MigFacts, choice: Choice) -> None:
        self.facts = facts
        self.held, self.rooms = Rooms(facts.snapshot), Rooms(facts.snapshot)
        self.fitting = Fitting(self.rooms)
        self.early: dict[str, Counter[str]] = defaultdict(Counter)
        self.final: dict[str, Counter[str]] = defaultdict(Counter)
        self.closed: set[str] = set()
        self.moves: list[PlannedMove] = []
        self.started: list[tuple[Pod, str]] = []
        drained = set(choice.drained)
        for key, seat in facts.seats.items():
            self._count(key, choice.relaid.get(key, {}), key in drained)
            if key in drained:
                self.closed.add(seat.node.name)

    def _count(self, key: str, relaid: Mapping[int, tuple[tuple[str, int], ...]], is_drained: bool) -> None:
        seat = self.facts.seats[key]
        block = seat.block
        left = Counter(dict(block.offered) if is_drained else block.idle)
        if relaid and block.together:
            left.clear()
        for at, counts in relaid.items():
            left.subtract(dict(block.gpus[at].counts))
            left.update(dict(counts))
        self.final[seat.node.name].update(left)
        if not is_drained:
            self.early[seat.node.name].update(left)

    def move_all(self, pods: Sequence[Pod]) -> Pod | None:
        """Puts every pod elsewhere; the one that finds no place, or None. Least flexible first."""
        ordered = sorted(pods, key=lambda pod: (len(self.facts.allowed_groups(pod)), pod.uid))
        for pod in ordered:
            self.rooms.remove(pod)
        for pod in ordered:
            target = self._find(pod, self.early, self.held, [*self.closed, pod.node_name])
            if target is None:
                return pod
            self._take(pod, target)
            self.moves.append(PlannedMove(pod, pod.node_name, target))
        return None

    def start(self, pods: Sequence[Pod]) -> bool:
        """Pending pods that start together or not at all."""
        mark, begun = self.rooms.checkpoint(), len(self.started)
        for pod in sorted(pods, key=lambda pod: (-sum(asked_profiles(pod).values()), pod.uid)):
            target = self._find(pod, self.final, self.rooms, ())
            if target is None:
                for done, name in self.started[begun:]:
                    self.final[name].update(asked_profiles(done))
                del self.started[begun:]
                self.rooms.undo(mark)
                return False
            self.rooms.place(pod, target)
            self.final[target].subtract(asked_profiles(pod))
            self.started.append((pod, target))
        return True

    def _take(self, pod: Pod, target: str) -> None:
        asked = asked_profiles(pod)
        self.early[target].subtract(asked)
        self.final[target].subtract(asked)
        room = self.held.by_node[target]
        room.add(pod, self.held.demand(pod), ())
        self.rooms.place(pod, target)

    def _find(
        self, pod: Pod, idle: Mapping[str, Counter[str]], rooms: Rooms, closed: Sequence[str]
    ) -> str | None:
        """The node with the fewest idle instances of its profiles that takes it; by name last."""
        asked = asked_profiles(pod)
        groups = self.facts.allowed_groups(pod)
        fitting = [
            name
            for name, left in idle.items()
            if name not in closed
            and self.facts.groups[name] in groups
            and all(left[profile] >= number for profile, number in asked.items())
            and self._has_room(pod, name, rooms)
        ]
        fitting.sort(key=lambda name: (sum(idle[name][profile] for profile in asked), name))
        node = self.facts.snapshot.nodes
        return next((name for name in fitting if self._is_welcome(pod, node[name].name)), None)

    def _has_room(self, pod: Pod, name: str, rooms: Rooms) -> bool:
        """Instances are counted here, all else by the ledger of the node."""
        short = rooms.by_node[name].shortages(rooms.demand(pod))
        return not [resource for resource in short if not resource.startswith(MIG_PREFIX)]

    def _is_welcome(self, pod: Pod, name: str) -> bool:
        if not self.fitting.needs_neighbours(pod):
            return True
        return not interpod_words(self.rooms, pod, self.facts.snapshot.nodes[name])
