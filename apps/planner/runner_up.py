"""The second best way to make room for a workload: which, how dear, and why it came second.

Not in here: finding it among the nodes (unlock).
"""

from __future__ import annotations

from collections.abc import Sequence

from apps.planner.clearing import Clearing
from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.inventory import Pod
from apps.planner.placement import Board, Mark
from apps.planner.plan import Alternative
from apps.planner.unblocking import list_names
from apps.planner.unlock import next_best
from apps.planner.wording import count


def find_runner_up(
    board: Board,
    table: ClearingTable,
    pods: Sequence[Pod],
    found: Sequence[Clearing],
    most_moves: int,
    deadline: Deadline,
    before: Mark,
) -> Alternative | None:
    """Other nodes for the same pods. board: with the plan on it, and left so; before: as it was without.
    None where nothing has to move, where the pods differ in shape, or where no second way was found."""
    if not board.moves or not found or len({board.shape(pod) for pod in pods}) > 1:
        return None
    kept = board.kept_since(before)
    board.undo(before)
    choice = next_best(board, table, list(pods), found, most_moves, deadline)
    board.redo(kept)
    if choice is None:
        return None
    moves = sum(len(one.victims) for one in choice)
    cost = round(sum(one.cost for one in choice), 3)
    nodes = tuple(sorted({one.node for one in choice}))
    return Alternative(nodes, moves, 0, cost, _say(nodes, moves, cost, found))


def _say(nodes: Sequence[str], moves: int, cost: float, found: Sequence[Clearing]) -> str:
    best_moves = sum(len(one.victims) for one in found)
    best_cost = round(sum(one.cost for one in found), 3)
    what = f"Starting on {list_names(list(nodes))} instead would take {count(moves, 'move')}"
    if moves > best_moves:
        return f"{what}, {moves - best_moves} more."
    if cost > best_cost:
        return f"{what} as well and interrupt {cost - best_cost:g} GPU-seconds of work more."
    return f"{what} at the same cost; the plan leaves the cluster fuller or was found first."
