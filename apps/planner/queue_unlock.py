"""Room for as much of the queue as the moves allow: by priority, then most GPUs, then fewest moves.

Each level of priority is a program over the nodes' choices (queue/), put on the board; what the program
cannot speak of (links, ports, rules between pods, nodes that share in time, pods without GPUs) follows one
by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.placement import Board
from apps.planner.progress import Progress, Tell, tell_nobody
from apps.planner.queue.level import LevelUnlock
from apps.planner.queue_in_turn import start_in_turn
from apps.planner.rooms import WHOLE
from apps.planner.waiting import WaitingWorkload

LARGE_PRICE = 300.0
MANY_NODES = 60
MOST_STAGES = 8
STAGES_PRICE = 1.0
"""Milli-GPUs that a move must be worth where there are stages."""
MOST_PASSES = 2
"""Over a level whose plan has one stage."""


class QueueUnlock:
    """bound: on the milli-GPUs that can start within the moves. was_late: whether time ran out."""

    def __init__(
        self,
        board: Board,
        waiting: Iterable[WaitingWorkload],
        max_moves: int,
        deadline: Deadline,
        stages: int = 1,
        tell: Tell = tell_nobody,
    ) -> None:
        self.board = board
        self.waiting = list(waiting)
        self.max_moves = max_moves
        self.deadline = deadline
        self.stages = stages
        self.tell = tell
        self.table = ClearingTable(board, deadline)
        self.was_late = False
        self.bound = 0.0
        self._idle = sum(_idle_milli(board, name) for name in board.final.by_node)

    def run(self) -> list[WaitingWorkload]:
        done: list[WaitingWorkload] = []
        for _, level in groupby(self.waiting, key=lambda one: one.priority):
            done += self._run_level(list(level), is_first=not self.bound and not self.board.moves)
        self.bound = min(self.bound, float(self._idle))
        return done

    def _run_level(self, level: list[WaitingWorkload], is_first: bool) -> list[WaitingWorkload]:
        waiting = float(sum(self._milli(one) for one in level))
        done = self._run_large(level)
        names = {one.key for one in done}
        left = [one for one in level if one.key not in names]
        number = 0
        while left:
            stages = min(2, self.stages + 1 - self.board.stage)
            search = LevelUnlock(
                *(self.board, self.table, left, self._moves_left(), self.deadline, stages),
                price=STAGES_PRICE if stages > 1 else 0.0,
                tell=self._tell,
            )
            started = search.run()
            if not number:
                # A later level's bound would depend on what the earlier ones took: all that waits, then.
                # So would one with nodes that share in time: who leaves them makes room that is not counted.
                is_close = is_first and not done and self.stages == 1 and not search.odd
                self.bound += min(waiting, search.bound) if is_close else waiting
            done += started
            names = {one.key for one in started}
            left = [one for one in left if one.key not in names]
            number += 1
            if self._is_late() or not self._moves_left() or not self._goes_on(number, bool(started)):
                break
        return done + self._run_rest(left)

    def _goes_on(self, number: int, has_started: bool) -> bool:
        """Whether what the level left over is worth another look, in stages on the board as it is then."""
        if self.stages == 1:
            return number < MOST_PASSES
        if not has_started or self.board.stage >= self.stages:
            return False
        self.board.begin_stage()
        return True

    def _run_large(self, level: list[WaitingWorkload]) -> list[WaitingWorkload]:
        """Where most of what waits asks for several GPUs on a node, those first: without moves, then with."""
        milli: dict[bool, int] = {True: 0, False: 0}
        large: list[WaitingWorkload] = []
        for one in level:
            demands = [self.board.final.demand(self.board.snapshot.pods[uid]) for uid in one.pods]
            is_large = all(demand.gpus > 1 for demand in demands)
            milli[is_large] += sum(demand.gpu_milli for demand in demands)
            if is_large:
                large.append(one)
        if milli[True] <= milli[False] or len(self.board.final.by_node) < MANY_NODES:
            return []
        args = (self.board, self.table, large, 0, self.deadline, 1, 0.0)
        done = LevelUnlock(*args, tell=self._tell).run()
        names = {one.key for one in done}
        rest = [one for one in large if one.key not in names]
        args = (self.board, self.table, rest, self._moves_left(), self.deadline, 1, LARGE_PRICE)
        return done + LevelUnlock(*args, tell=self._tell).run_large()

    def _run_rest(self, left: Sequence[WaitingWorkload]) -> list[WaitingWorkload]:
        """One by one in the order of the queue."""
        if not left or self._is_late():
            return []
        done = start_in_turn(self.board, self.table, left, self.max_moves, self.deadline)
        self._is_late()
        return done

    def _milli(self, one: WaitingWorkload) -> int:
        return sum(self.board.final.demand(self.board.snapshot.pods[uid]).gpu_milli for uid in one.pods)

    def _tell(self, milli: int) -> None:
        self.tell(Progress("Making room for the queue.", milli // WHOLE, len(self.board.moves)))

    def _is_late(self) -> bool:
        self.was_late = self.was_late or self.deadline()
        return self.was_late

    def _moves_left(self) -> int:
        return self.max_moves - len(self.board.moves)


def _idle_milli(board: Board, name: str) -> int:
    room = board.final.by_node[name]
    units = 0 if room.by_device else max(0, room.left.get(room.node.gpu_resource, 0)) * WHOLE
    return room.idle_milli + units
