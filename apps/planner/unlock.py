"""Room for what waits: which nodes to clear, where each moved pod goes, who gets which node.

A gang gets room whole or not at all. Objective: feasible, then the fewest moves, then the
least disruption cost. Not in here: the sets of pods that clear one node (clearing), the order
and wording of the plan (ordering, wording).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from apps.planner.clearing import Clearing, NodeClearing, Price, group_pods
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.unlock_exact import UnlockProgram, could_hold, most_per_node

Deadline = Callable[[], bool]
MOST_ATTEMPTS = 60
MOST_ANSWERS = 25


@dataclass(slots=True)
class Found:
    """bound: the fewest moves that could do it, had every moved pod a place to go; None if impossible.
    exact: every node's choices were enumerated."""

    clearings: list[Clearing] = field(default_factory=list)
    bound: int | None = None
    exact: bool = True


class ClearingTable:
    """Clearings per node and shape, remembered until the node changes."""

    def __init__(self, board: Board, deadline: Deadline) -> None:
        self.board = board
        self.deadline = deadline
        self.is_complete = True
        self._groups: dict[tuple[str, bool], tuple[int, list[list[Pod]]]] = {}
        self._known: dict[tuple[object, ...], tuple[int, int, list[Clearing]]] = {}

    def options(self, pod: Pod, node_name: str, starts: int, most_moves: int) -> list[Clearing]:
        """Fewest moves first. What is not known yet when time is up stays unknown."""
        key = (self.board.shape(pod), node_name, starts)
        version = self.board.version[node_name]
        known = self._known.get(key)
        if known is not None and known[0] == version and (known[1] >= most_moves or known[2]):
            return [option for option in known[2] if len(option.victims) <= most_moves]
        if self.deadline():
            self.is_complete = False
            return []
        demand = self.board.final.demand(pod)
        groups = self._groups_of(node_name, demand.link is not None)
        node = NodeClearing(self.board, node_name, demand, groups)
        found = node.find(starts, most_moves)
        # What was found first is the fewest; a search that gave up before that proves nothing.
        self.is_complete = self.is_complete and (node.is_complete or bool(found))
        self._known[key] = (version, most_moves, found)
        return found

    def _groups_of(self, node_name: str, by_device: bool) -> list[list[Pod]]:
        version, key = self.board.version[node_name], (node_name, by_device)
        if key not in self._groups or self._groups[key][0] != version:
            self._groups[key] = (version, group_pods(self.board, node_name, by_device))
        return self._groups[key][1]

    def fewest(self, pod: Pod, node_name: str, starts: int, most_moves: int) -> Clearing | None:
        return next(iter(self.options(pod, node_name, starts, most_moves)), None)


def unlock_group(
    board: Board, table: ClearingTable, pods: Sequence[Pod], most_moves: int, deadline: Deadline
) -> Found | None:
    """Room for all these pods (a gang, or one pod), kept on the board; None leaves the board as it was.

    Pods of one shape are solved together; a gang of several shapes goes shape by shape, the
    largest first.
    """
    mark = board.checkpoint()
    total = Found(bound=0)
    shapes: dict[object, list[Pod]] = {}
    for pod in pods:
        shapes.setdefault((board.shape(pod), pod.pod_anti_affinity, pod.spread), []).append(pod)
    ordered = sorted(
        shapes.values(), key=lambda group: (-board.final.demand(group[0]).gpu_milli, group[0].uid)
    )
    for group in ordered:
        before = len(board.moves)
        found = _unlock_shape(board, table, group, most_moves, deadline)
        if found is None:
            board.undo(mark)
            return None
        most_moves -= len(board.moves) - before
        total.clearings += found.clearings
        total.bound = (total.bound or 0) + (found.bound or 0) if len(ordered) == 1 else 0
        total.exact = total.exact and found.exact
    return total


def _unlock_shape(
    board: Board, table: ClearingTable, pods: list[Pod], most_moves: int, deadline: Deadline
) -> Found | None:
    """The knapsack's choice if its moves find places; else the better of the next best that does
    and the exact program's answer."""
    mark = board.checkpoint()
    ideal = choose_nodes(board, table, pods, most_moves, set())
    if ideal is None:
        return None
    bound = count_moves(ideal)
    choice = _try_choices(board, table, pods, ideal, most_moves, deadline)
    if choice is not None and price(choice) <= price(ideal):
        return _found(choice, bound, table)
    kept = board.kept_since(mark)
    board.undo(mark)
    program = UnlockProgram(board, pods, most_moves if choice is None else count_moves(choice), deadline)
    for _ in range(MOST_ANSWERS):
        answer = program.solve()
        if answer is None or not answer.clearings:
            break
        bound = max(bound, answer.bound)
        if choice is not None and price(answer.clearings) >= price(choice):
            break
        if program.realise(answer):
            return _found(list(answer.clearings), bound, table)
        program.forbid(answer)
    if choice is None:
        return None
    board.redo(kept)
    return _found(choice, bound, table)


def _found(choice: list[Clearing], bound: int, table: ClearingTable) -> Found:
    return Found(choice, bound if table.is_complete else 0, table.is_complete)


def _try_choices(
    board: Board,
    table: ClearingTable,
    pods: list[Pod],
    ideal: list[Clearing],
    most_moves: int,
    deadline: Deadline,
) -> list[Clearing] | None:
    """Nodes whose pods find no place are struck off until the rest works out."""
    banned: set[tuple[str, int]] = set()
    choice = ideal
    for _ in range(MOST_ATTEMPTS):
        failed = _realise(board, table, pods, choice)
        if failed is None:
            return choice
        banned.add(failed)
        following = None if deadline() else choose_nodes(board, table, pods, most_moves, banned)
        if following is None:
            return None
        choice = following
    return None


def count_moves(choice: Sequence[Clearing]) -> int:
    return sum(len(clearing.victims) for clearing in choice)


def price(choice: Sequence[Clearing]) -> Price:
    moves, cost, freed = reduce(add_prices, (clearing.price for clearing in choice), (0, 0.0, 0))
    return moves, round(cost, 3), freed


def add_prices(one: Price, other: Price) -> Price:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def choose_nodes(
    board: Board,
    table: ClearingTable,
    pods: list[Pod],
    most_moves: int,
    banned: set[tuple[str, int]],
) -> list[Clearing] | None:
    """The cheapest nodes that together start all pods, as if every moved pod found a place.

    Exact (a knapsack over the nodes' cheapest clearings), hence a lower bound on the moves.
    """
    want = len(pods)
    best: list[tuple[Price, tuple[Clearing, ...]] | None] = [((0, 0.0, 0), ()), *([None] * want)]
    for name in board.open_nodes(pods[0]):
        options = _node_options(board, table, pods[0], name, want, most_moves, banned)
        if not options:
            continue
        for filled in range(want, 0, -1):
            for option in options:
                base = best[max(0, filled - option.starts)]
                if base is None:
                    continue
                total = add_prices(base[0], option.price)
                known = best[filled]
                if total[0] <= most_moves and (known is None or total < known[0]):
                    best[filled] = (total, (*base[1], option))
    chosen = best[want]
    return None if chosen is None else list(chosen[1])


def _node_options(
    board: Board,
    table: ClearingTable,
    pod: Pod,
    name: str,
    want: int,
    most_moves: int,
    banned: set[tuple[str, int]],
) -> list[Clearing]:
    options: list[Clearing] = []
    for starts in range(1, min(want, most_per_node(pod)) + 1):
        if (name, starts) in banned:
            continue
        if not could_hold(board, name, board.final.demand(pod), starts):
            break
        cheapest = table.fewest(pod, name, starts, most_moves)
        if cheapest is None:
            break
        options.append(cheapest)
    return options


def _realise(
    board: Board, table: ClearingTable, pods: list[Pod], choice: list[Clearing]
) -> tuple[str, int] | None:
    """Put the choice on the board; on failure take all back and say which node failed."""
    mark = board.checkpoint()
    board.closed.update(clearing.node for clearing in choice if clearing.victims)
    waiting = list(pods)
    for clearing in sorted(choice, key=_easiest_first):
        options = [clearing, *table.options(pods[0], clearing.node, clearing.starts, len(clearing.victims))]
        starting = waiting[: clearing.starts]
        if not any(_try_clearing(board, option, starting) for option in options):
            board.undo(mark)
            return clearing.node, clearing.starts
        del waiting[: clearing.starts]
    return None


def _easiest_first(clearing: Clearing) -> tuple[bool, int, str]:
    """Pods that start where there is room already come first, so that arrivals leave it to them."""
    return bool(clearing.victims), -len(clearing.victims), clearing.node


def _try_clearing(board: Board, clearing: Clearing, pods: list[Pod]) -> bool:
    mark = board.checkpoint()
    victims = sorted(clearing.victims, key=lambda pod: _bulk(board, pod), reverse=True)
    for pod in victims:
        target = board.choose_target(pod, clearing.node)
        if target is None:
            board.undo(mark)
            return False
        board.move(pod, target)
    for pod in pods:
        if not board.fitting.can_run(pod, clearing.node):
            board.undo(mark)
            return False
        board.start(pod, clearing.node)
    return True


def _bulk(board: Board, pod: Pod) -> tuple[int, int, str]:
    return board.final.demand(pod).gpu_milli, pod.requests.get("cpu", 0), pod.uid
