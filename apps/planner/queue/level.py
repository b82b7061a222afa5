"""Workloads of one priority: as many GPUs as the moves allow, found in rounds and put on the board.

Whatever round is the last in time, its best answer stands on the board. Not in here: what the program cannot
speak of (queue_unlock).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apps.planner.clearing_table import ClearingTable
from apps.planner.placement import Board
from apps.planner.queue.program import Answer
from apps.planner.queue.realising import Realisation
from apps.planner.queue.search import ChoiceSearch
from apps.planner.queue.wishes import list_wishes
from apps.planner.waiting import WaitingWorkload

Deadline = Callable[[], bool]
MOST_REPAIRS, LARGE_REPAIRS = 8, 60
"""After half of them only columns are left that have found places together."""
STEPS = {1: (4, 4, 6, 8), 2: (0, 3, 3, 3, 4, 5, 8)}
"""Rounds of search before each answer, by stages."""


class LevelUnlock:
    """table: of clearings, on the same board. bound: on the milli-GPUs that can start."""

    def __init__(
        self,
        board: Board,
        table: ClearingTable,
        waiting: Sequence[WaitingWorkload],
        most_moves: int,
        deadline: Deadline,
        stages: int,
        price: float,
        tell: Callable[[int], None],
    ) -> None:
        self.board = board
        self.table = table
        self.most_moves = most_moves
        self.deadline = deadline
        self.stages = stages
        self.price = price
        self.tell = tell
        self.wishes, self.batches = list_wishes(board, waiting)
        self.waiting_milli = float(sum(one.milli * len(one.members) for one in self.batches))
        self.bound = self.waiting_milli
        self.had_failures = False
        self.odd: list[str] = []

    def run(self) -> list[WaitingWorkload]:
        if not self.wishes or self.deadline():
            return []
        search = ChoiceSearch(
            *(self.board, self.wishes, self.batches, self.most_moves),
            *(self.stages, self.price, self.deadline),
        )
        self.odd = search.table.odd
        search.seed(self.table)
        best: tuple[Answer, list[WaitingWorkload]] | None = None
        for rounds in STEPS[self.stages]:
            is_finished = bool(rounds) and search.improve(rounds)
            answer = search.program.choose(self.deadline)
            if answer is not None and (best is None or self._worth(answer) > self._worth(best[0])):
                best = self._better(search, answer, best)
            if is_finished or self.deadline():
                break
        self.bound = min(self.bound, search.bound)
        if best is None:
            return []
        if best[0].columns and not self.deadline():
            best = self._with_fewer_moves(search, best)
        Realisation(self.board, search, best[0]).put()
        return best[1]

    def run_large(self) -> list[WaitingWorkload]:
        """Pods with several GPUs at the fewest moves each, all of them weighed together."""
        if not self.wishes or self.deadline():
            return []
        search = ChoiceSearch(
            *(self.board, self.wishes, self.batches, self.most_moves), *(1, self.price, self.deadline)
        )
        search.seed_large(self.table)
        found = self._realise(search, search.program.choose(self.deadline), LARGE_REPAIRS)
        return found[1] if found is not None else []

    def _better(
        self,
        search: ChoiceSearch,
        answer: Answer,
        best: tuple[Answer, list[WaitingWorkload]] | None,
    ) -> tuple[Answer, list[WaitingWorkload]] | None:
        """The better of the two; the board stays as it is."""
        mark, stage = self.board.checkpoint(), self.board.stage
        found = self._realise(search, answer)
        if found is None:
            return best
        is_better = best is None or self._worth(found[0]) > self._worth(best[0])
        if is_better:
            self.tell(round(found[0].milli))
        self.board.undo(mark)
        self.board.stage = stage
        return found if is_better else best

    def _with_fewer_moves(
        self, search: ChoiceSearch, best: tuple[Answer, list[WaitingWorkload]]
    ) -> tuple[Answer, list[WaitingWorkload]]:
        """As many GPUs with as few moves as the known choices allow; the board stays as it is."""
        answer = search.program.choose(self.deadline, least=best[0].milli)
        if answer is None or answer.milli < best[0].milli or answer.moves >= best[0].moves:
            return best
        mark, stage = self.board.checkpoint(), self.board.stage
        realisation = Realisation(self.board, search, answer)
        is_possible = realisation.put()
        self.board.undo(mark)
        self.board.stage = stage
        return (answer, realisation.unlocked) if is_possible else best

    def _worth(self, answer: Answer) -> float:
        return answer.milli - self.price * answer.moves

    def _realise(
        self, search: ChoiceSearch, answer: Answer | None, repairs: int = MOST_REPAIRS
    ) -> tuple[Answer, list[WaitingWorkload]] | None:
        """Columns that find no place are left out, until the rest goes well together."""
        program = search.program
        columns = list(program.columns)
        for attempt in range(repairs):
            if answer is None:
                return None
            realisation = Realisation(self.board, search, answer)
            if realisation.put():
                return answer, realisation.unlocked
            self.had_failures = True
            failed = {one.key for one in realisation.failed}
            is_quick = self.stages > 1 and not search.is_small
            is_late = attempt >= repairs // 2 or is_quick
            columns = [one for one in (answer.columns if is_late else columns) if one.key not in failed]
            if is_quick:
                program.drop(failed)
            answer = program.choose(self.deadline, columns)
        return None
