"""Room for as much of the queue as the moves allow: by priority, then most GPUs per move."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from apps.planner.clearing_table import ClearingTable, Deadline
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.unlock import unlock_group
from apps.planner.waiting import WaitingWorkload


class QueueUnlock:
    """Greedy: each round unlocks the workload that needs the fewest moves per GPU."""

    def __init__(
        self, board: Board, waiting: Iterable[WaitingWorkload], max_moves: int, deadline: Deadline
    ) -> None:
        self.board = board
        self.waiting = list(waiting)
        self.max_moves = max_moves
        self.deadline = deadline
        self.table = ClearingTable(board, deadline)
        self.was_late = False
        self._place = {one.key: at for at, one in enumerate(self.waiting)}

    def run(self) -> list[WaitingWorkload]:
        done: list[WaitingWorkload] = []
        for _, level in groupby(self.waiting, key=lambda one: one.priority):
            done += self._run_level(list(level))
        return done

    def _run_level(self, level: list[WaitingWorkload]) -> list[WaitingWorkload]:
        done: list[WaitingWorkload] = []
        by_shape: dict[object, list[WaitingWorkload]] = {}
        for one in level:
            by_shape.setdefault(self._shape(one), []).append(one)
        dead: set[object] = set()
        while not self._is_late():
            choice = self._best_shape(by_shape, dead)
            if choice is None:
                break
            one = by_shape[choice][0]
            pods = [self.board.snapshot.pods[uid] for uid in one.pods]
            if unlock_group(self.board, self.table, pods, self._moves_left(), self.deadline) is None:
                dead.add(choice)
                continue
            done.append(one)
            by_shape[choice].pop(0)
            if not by_shape[choice]:
                del by_shape[choice]
        return done

    def _is_late(self) -> bool:
        self.was_late = self.was_late or self.deadline()
        return self.was_late

    def _moves_left(self) -> int:
        return self.max_moves - len(self.board.moves)

    def _shape(self, one: WaitingWorkload) -> object:
        pods = [self.board.snapshot.pods[uid] for uid in one.pods]
        return tuple(sorted(repr(self.board.shape(pod)) for pod in pods))

    def _best_shape(self, by_shape: dict[object, list[WaitingWorkload]], dead: set[object]) -> object | None:
        """Fewest moves per GPU; among equals the larger, then the one first in the queue."""
        best: tuple[float, int, int] | None = None
        chosen: object | None = None
        for shape, ones in by_shape.items():
            if shape in dead:
                continue
            if self._is_late():
                break
            pod = self.board.snapshot.pods[ones[0].pods[0]]
            moves = self._estimate(pod, len(ones[0].pods))
            if moves is None or moves > self._moves_left():
                continue
            milli = self.board.final.demand(pod).gpu_milli * len(ones[0].pods)
            key = (moves * 1000 / max(milli, 1), -milli, self._place[ones[0].key])
            if best is None or key < best:
                best, chosen = key, shape
        return chosen

    def _estimate(self, pod: Pod, members: int) -> int | None:
        """The fewest moves for one such pod on its best node, times the members."""
        while True:
            cheapest = self.table.ranking(pod, 1).cheapest(1, self.max_moves)
            if not cheapest:
                return None
            if cheapest[0].clearing is not None:
                return len(cheapest[0].clearing.victims) * members
            if self._is_late():
                return None
            self.table.fewest(pod, cheapest[0].node, 1, self.max_moves)
