"""Room for what waits: which nodes to clear, where each moved pod goes, who gets which node.

A gang gets room whole or not at all. Objective: feasible, then the fewest moves, then the
least disruption cost. Not in here: the sets of pods that clear one node (clearing), the order
and wording of the plan (ordering, wording).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce

from apps.planner.clearing import Clearing, Price
from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.inventory import Pod
from apps.planner.node_choice import NodeChoice, add_prices
from apps.planner.placement import Board
from apps.planner.unlock_exact import UnlockProgram

MOST_ATTEMPTS = 60
MOST_ANSWERS = 25
MOST_VARIANTS = 4


@dataclass(slots=True)
class Found:
    """bound: no plan that does it has fewer moves. exact: every node's choices that matter were looked at."""

    clearings: list[Clearing] = field(default_factory=list)
    bound: int | None = None
    exact: bool = True


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
    nodes = NodeChoice(table, pods, most_moves)
    fewest = nodes.fewest()
    ideal = None if fewest[-1] is None else nodes.choose(set())
    if ideal is None:
        return None
    bound = count_moves(ideal) if table.is_complete else fewest[-1] or 0
    choice = _try_choices(board, table, nodes, pods, ideal, deadline)
    if choice is not None and price(choice) <= price(ideal):
        return _found(choice, bound, table)
    kept = board.kept_since(mark)
    board.undo(mark)
    most = most_moves if choice is None else count_moves(choice)
    program = UnlockProgram(table, pods, most, deadline, fewest)
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
    return Found(choice, bound, table.is_complete)


def _try_choices(
    board: Board,
    table: ClearingTable,
    nodes: NodeChoice,
    pods: list[Pod],
    ideal: list[Clearing],
    deadline: Deadline,
    without: Collection[tuple[str, int]] = (),
) -> list[Clearing] | None:
    """Nodes whose pods find no place are struck off until the rest works out. without: struck off already."""
    banned: set[tuple[str, int]] = set(without)
    choice = ideal
    for _ in range(MOST_ATTEMPTS):
        failed = _realise(board, table, pods, choice)
        if failed is None:
            return choice
        banned.add(failed)
        following = None if deadline() else nodes.choose(banned)
        if following is None:
            return None
        choice = following
    return None


def count_moves(choice: Sequence[Clearing]) -> int:
    return sum(len(clearing.victims) for clearing in choice)


def price(choice: Sequence[Clearing]) -> Price:
    moves, cost, freed = reduce(add_prices, (clearing.price for clearing in choice), (0, 0.0, 0))
    return moves, round(cost, 3), freed


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


def next_best(
    board: Board,
    table: ClearingTable,
    pods: list[Pod],
    found: Sequence[Clearing],
    most_moves: int,
    deadline: Deadline,
) -> list[Clearing] | None:
    """The cheapest other choice of nodes that works, for pods of one shape; None if there is none within the
    moves, or none was found in time. The board is left as it was."""
    nodes = NodeChoice(table, pods, most_moves)
    cleared = [one for one in found if one.victims] or list(found)
    mark = board.checkpoint()
    best: list[Clearing] | None = None
    for one in cleared[:MOST_VARIANTS]:
        banned = {(one.node, starts) for starts in range(1, len(pods) + 1)}
        choice = None if deadline() else nodes.choose(banned)
        if choice is None:
            continue
        choice = _try_choices(board, table, nodes, pods, choice, deadline, banned)
        board.undo(mark)
        if choice is not None and (best is None or price(choice) < price(best)):
            best = choice
    return best
