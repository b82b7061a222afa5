"""What waits, one workload after the other: for what the program over nodes cannot speak of, and as a second
opinion on its answer. Not in here: that program (queue/), and the search for one workload (unlock).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.placement import Board
from apps.planner.unlock import unlock_group
from apps.planner.waiting import WaitingWorkload

Worth = tuple[tuple[int, ...], int, float]


def start_in_turn(
    board: Board,
    table: ClearingTable,
    waiting: Iterable[WaitingWorkload],
    max_moves: int,
    deadline: Deadline,
) -> list[WaitingWorkload]:
    """In the order given; of several that look alike none is tried after one failed. max_moves: of all
    that stand on the board in the end."""
    done: list[WaitingWorkload] = []
    dead: set[object] = set()
    for one in waiting:
        pods = [board.snapshot.pods[uid] for uid in one.pods]
        shape = tuple(sorted(repr(board.shape(pod)) for pod in pods))
        if shape in dead:
            continue
        if deadline():
            break
        if unlock_group(board, table, pods, max_moves - len(board.moves), deadline) is None:
            dead.add(shape)
        else:
            done.append(one)
    return done


def sort_largest_first(board: Board, waiting: Iterable[WaitingWorkload]) -> list[WaitingWorkload]:
    """By priority; among equals those whose pods ask for most GPU on a node, then as they wait: what is large
    finds no room any more once small pods have started wherever it was free."""

    def largest(one: WaitingWorkload) -> int:
        return max(board.final.demand(board.snapshot.pods[uid]).gpu_milli for uid in one.pods)

    return sorted(waiting, key=lambda one: (-one.priority, -largest(one)))


def worth_of(board: Board, waiting: Sequence[WaitingWorkload], started: Iterable[WaitingWorkload]) -> Worth:
    """More is better: milli-GPUs that start, by level of priority, the highest first; then fewer moves;
    then less cost."""
    levels = dict.fromkeys(sorted({one.priority for one in waiting}, reverse=True), 0)
    for one in started:
        pods = (board.snapshot.pods[uid] for uid in one.pods)
        levels[one.priority] += sum(board.final.demand(pod).gpu_milli for pod in pods)
    return tuple(levels.values()), -len(board.moves), -sum(board.cost(move.pod) for move in board.moves)
