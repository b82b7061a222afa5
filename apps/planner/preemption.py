"""Room for a workload where moves alone do not make any: less important pods give way, mixed with moves.

kube-scheduler's rules: only pods of strictly lower priority, only for a workload whose policy is not Never.
Ours beside them: nobody gives way who may not be evicted (protections, budgets, gangs at their minimum), and
who can move to a free place moves. For one node every inclusion-minimal set of pods is weighed; several pods
choose their nodes one after the other, the largest first. Not in here: room by moves alone (unlock).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from apps.planner.clearing import Clearing, NodeClearing, group_pods
from apps.planner.clearing_table import Deadline
from apps.planner.gpu_wishes import request_of
from apps.planner.inventory import Pod
from apps.planner.least_moves import least_moves
from apps.planner.placement import Board
from apps.planner.plan import Alternative

MOST_NODES = 400
NEVER = "Never"
Weight = tuple[bool, int, int, int, int, float]
"""(whether anybody gives way, the highest priority that does, milli-GPUs that do, pods that do, moves, cost);
the least is best."""


@dataclass(frozen=True, slots=True)
class Sacrifice:
    """A pod that gives way on its node."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class _Way:
    weight: Weight
    node: str
    victims: tuple[Pod, ...]
    given_up: tuple[Pod, ...]


class PreemptionSearch:
    """sacrifices: who gives way, once `run` has said yes; the moves and starts are on the board. runner_up:
    the second best node, where one pod alone waits."""

    def __init__(self, board: Board, pods: Sequence[Pod], max_moves: int, deadline: Deadline) -> None:
        self.board = board
        self.pods = sorted(pods, key=lambda pod: (-board.final.demand(pod).gpu_milli, pod.uid))
        self.max_moves = max_moves
        self.deadline = deadline
        self.sacrifices: list[Sacrifice] = []
        self.runner_up: Alternative | None = None
        self._spent: Counter[str] = Counter()

    def run(self) -> bool:
        """Whether all of them can start now; if not, the board is as it was."""
        if any(pod.preemption_policy == NEVER for pod in self.pods):
            return False
        mark = self.board.checkpoint()
        for pod in self.pods:
            way = self._best_way(pod)
            if way is None:
                self.board.undo(mark)
                self.sacrifices.clear()
                return False
            self._go(way, pod)
        if len(self.pods) > 1:
            self.runner_up = None
        return True

    def _best_way(self, pod: Pod) -> _Way | None:
        board, demand = self.board, self.board.final.demand(pod)
        least = {
            name: bound
            for name in board.open_nodes(pod)
            if (bound := least_moves(board, board.final.by_node[name], demand, 1)) is not None
        }
        best: _Way | None = None
        second: _Way | None = None
        for name in sorted(least, key=lambda name: (least[name], name))[:MOST_NODES]:
            if self.deadline():
                break
            ways = [self._weigh(pod, clearing) for clearing in self._clearings(pod, name)]
            here = min((way for way in ways if way is not None), key=lambda way: way.weight, default=None)
            if here is None:
                continue
            if best is None or here.weight < best.weight:
                best, second = here, best
            elif second is None or here.weight < second.weight:
                second = here
        self.runner_up = _tell_second(best, second) if best is not None and second is not None else None
        return best

    def _clearings(self, pod: Pod, name: str) -> list[Clearing]:
        board, demand = self.board, self.board.final.demand(pod)
        by_device = demand.link is not None
        groups = group_pods(board, name, by_device, lambda guest: self._may_give_way(guest, pod))
        for group in groups:
            group.sort(key=lambda guest: (guest.priority, board.cost(guest), guest.uid))
        node = NodeClearing(board, name, demand, groups)
        most = len(board.final.by_node[name].pods)
        return node.find(1, most, slack=most)

    def _may_give_way(self, guest: Pod, pod: Pod) -> bool:
        stated = request_of(self.board.snapshot, guest)
        if stated is not None and stated.preemptible is False:
            return False
        return guest.priority < pod.priority and self.board.may_leave(guest)

    def _weigh(self, pod: Pod, clearing: Clearing) -> _Way | None:
        """Who of them moves and who gives way; the board is left as it was."""
        board = self.board
        mark = board.checkpoint()
        board.closed.add(clearing.node)
        given_up: list[Pod] = []
        moves = 0
        by_importance = sorted(
            clearing.victims,
            key=lambda one: (-one.priority, -board.final.demand(one).gpu_milli, one.uid),
        )
        for victim in by_importance:
            target = self._choose_target(victim, clearing.node)
            if target is not None:
                board.move(victim, target)
                moves += 1
            elif self._may_give_way(victim, pod):
                given_up.append(victim)
            else:
                board.undo(mark)
                return None
        for victim in given_up:
            board.final.remove(victim)
        fits = board.fitting.can_run(pod, clearing.node) and self._bears(given_up)
        board.undo(mark)
        if not fits:
            return None
        milli = sum(board.final.demand(one).gpu_milli for one in given_up)
        highest = max((one.priority for one in given_up), default=0)
        cost = round(sum(board.cost(one) for one in clearing.victims), 3)
        weight = (bool(given_up), highest, milli, len(given_up), moves, cost)
        return _Way(weight, clearing.node, tuple(by_importance), tuple(given_up))

    def _choose_target(self, victim: Pod, source: str) -> str | None:
        """All moves come before the first preemption, so whoever gives way still has his rules while others
        move. Those of earlier nodes are off the board by now and can't be asked, so nobody whom rules
        between pods might concern is moved beside them."""
        board = self.board
        if len(board.moves) >= self.max_moves:
            return None
        if self.sacrifices and board.fitting.needs_neighbours(victim):
            return None
        return board.choose_target(victim, source)

    def _bears(self, given_up: Sequence[Pod]) -> bool:
        """Whether budgets and gangs can lose all of these, beside those that have given way before."""
        spent = Counter(self._spent)
        for pod in given_up:
            for key, most in self._limits(pod):
                spent[key] += 1
                if spent[key] > most:
                    return False
        return True

    def _limits(self, pod: Pod) -> list[tuple[str, int]]:
        limits = [
            (f"budget {budget.uid}", budget.disruptions_allowed)
            for budget in self.board.rules.budgets_of(pod)
            if pod.ready or not budget.always_allow_unhealthy
        ]
        gang = self.board.snapshot.gangs.get(pod.gang)
        if gang is not None and gang.min_members > 1:
            spare = self.board.rules.members_of(pod.gang) - gang.min_members
            limits.append((f"gang {pod.gang}", spare))
        return limits

    def _go(self, way: _Way, pod: Pod) -> None:
        board = self.board
        if way.victims:
            board.closed.add(way.node)
        for victim in way.victims:
            if victim not in way.given_up:
                target = self._choose_target(victim, way.node)
                assert target is not None
                board.move(victim, target)
        for victim in way.given_up:
            board.final.remove(victim)
            self.sacrifices.append(Sacrifice(victim, way.node))
            self._spent.update(key for key, _ in self._limits(victim))
        board.start(pod, way.node)


def _tell_second(best: _Way, second: _Way) -> Alternative:
    """Why the other node came second: the first part of the weight in which it is worse."""
    (_, priority, milli, pods, moves, cost), (_, *other) = best.weight, second.weight
    head = f"On {second.node} instead "
    if other[0] > priority:
        said = f"a pod of priority {other[0]} would have to give way; here none of more than {priority}."
    elif other[1] > milli:
        said = f"{(other[1] - milli) / 1000:g} GPUs more would be taken away."
    elif other[2] > pods:
        said = f"{other[2]} pods would have to give way instead of {pods}."
    elif other[3] > moves:
        said = f"{other[3]} moved {'pod' if other[3] == 1 else 'pods'} would be needed instead of {moves}."
    elif other[4] > cost:
        said = f"{other[4] - cost:g} GPU-seconds more of work would be lost."
    else:
        said = "it would cost the same; this node was found first."
    given, cost_there = len(second.given_up), second.weight[-1]
    return Alternative((second.node,), second.weight[4], given, cost_there, head + said)
