"""An answer of the queue's program put on the board, pod by pod, or nothing of it.

First those start who fit already, then pods without GPUs move, then (a stage later, where stages are allowed)
pods with GPUs, then everybody else starts, members without GPUs last. Not in here: what to do when a choice
finds no place (level).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Sequence

from apps.planner.capacity import shape_key
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.queue.columns import Column
from apps.planner.queue.program import Answer
from apps.planner.queue.search import ChoiceSearch
from apps.planner.resources import asks_gpu
from apps.planner.waiting import WaitingWorkload


class Realisation:
    """failed: columns of which a pod found no place. unlocked: who starts, where nothing failed."""

    def __init__(self, board: Board, search: ChoiceSearch, answer: Answer) -> None:
        self.board = board
        self.search = search
        self.columns = sorted(answer.columns, key=lambda one: (bool(one.victims), one.node))
        self.failed: list[Column] = []
        self.unlocked: list[WaitingWorkload] = []
        self._pods: dict[Hashable, deque[Pod]] = defaultdict(deque)
        self._light: list[Pod] = []
        self._places: dict[Hashable, Counter[str]] = defaultdict(Counter)
        for count, batch in zip(answer.batches, search.batches, strict=True):
            for one in batch.members[:count]:
                self.unlocked.append(one)
                for uid in one.pods:
                    pod = board.snapshot.pods[uid]
                    if board.final.demand(pod).gpus:
                        self._pods[shape_key(board, pod)].append(pod)
                    else:
                        self._light.append(pod)
        for column in self.columns:
            for kind, number in column.arrives:
                self._places[shape_key(board, search.table.examples[kind])][column.node] += number

    def put(self) -> bool:
        """False leaves the board as it was, and `failed` says of whom."""
        board = self.board
        mark, stage = board.checkpoint(), board.stage
        quiet = [one for one in self.columns if not one.victims]
        moving = [one for one in self.columns if one.victims]
        closed = {*board.closed, *(one.node for one in moving)}
        board.closed = closed | {one.node for one in self.columns}
        for column in quiet:
            self._start(column)
        self._move(moving, heavy=False)
        if self.search.stages > 1 and len(board.moves) > mark[2]:
            board.next_stage()
        self._move(moving, heavy=True)
        for column in moving:
            self._start(column)
        if not all(self._start_light(pod) for pod in self._light):
            self.failed += self.columns
        board.closed = closed
        if not self.failed and not any(self._pods.values()):
            return True
        board.undo(mark)
        board.stage = stage
        return False

    def _move(self, columns: Sequence[Column], heavy: bool) -> None:
        board = self.board
        for column in columns:
            pods = [pod for pod in column.victims if asks_gpu(pod) == heavy]
            for pod in sorted(pods, key=lambda one: (-board.final.demand(one).gpu_milli, one.uid)):
                target = self._target(pod, column.node)
                if target is None:
                    self.failed.append(column)
                    break
                board.move(pod, target)

    def _target(self, pod: Pod, source: str) -> str | None:
        reserved = self._places[shape_key(self.board, pod)]
        for name in sorted(reserved):
            if reserved[name] > 0 and name != source and self._accepts(pod, name):
                reserved[name] -= 1
                return name
        return self.board.choose_target(pod, source)

    def _accepts(self, pod: Pod, target: str) -> bool:
        """A place that the program chose, whether or not the board would keep the node for others."""
        board = self.board
        if not board.held.fits(pod, target):
            return False
        mark = board.final.checkpoint()
        board.final.remove(pod)
        try:
            return board.fitting.can_run(pod, target)
        finally:
            board.final.undo(mark)

    def _start_light(self, pod: Pod) -> bool:
        """A member without GPUs starts on the tightest node that takes it."""
        board = self.board
        for tied in board.table.by_tightness(board.roomy_nodes(pod)):
            for name in sorted(tied):
                if board.fitting.can_run(pod, name):
                    board.start(pod, name)
                    return True
        return False

    def _start(self, column: Column) -> None:
        wishes = sorted(column.starts, key=lambda entry: -self.search.wishes[entry[0]].demand.gpu_milli)
        for wish, number in wishes:
            waiting = self._pods[self.search.wishes[wish].key]
            for _ in range(min(number, len(waiting))):
                if not self.board.fitting.can_run(waiting[0], column.node):
                    self.failed.append(column)
                    return
                self.board.start(waiting.popleft(), column.node)
