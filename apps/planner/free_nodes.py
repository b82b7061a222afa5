"""Free whole nodes: which to empty, and where their GPU pods go.

Only GPU pods move; a free node may keep CPU pods and DaemonSets. Nodes that are free already
stay free. Not in here: the exact program (exact), the wording (wording).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from apps.planner.clearing_table import Deadline
from apps.planner.emptying import Candidate, ExactAnswer, Realisation
from apps.planner.free_nodes_exact import FreeNodesProgram
from apps.planner.placement import Board
from apps.planner.plan import Refusal
from apps.planner.progress import Progress, Tell, tell_nobody
from apps.planner.resources import asks_gpu
from apps.planner.rooms import is_open_node


@dataclass(slots=True)
class FreedNodes:
    """bound: no plan within the moves can free more nodes. proven: bound and fewest moves are both reached
    (the cost may be left to chance on large clusters). why: a sentence where no node is freed."""

    freed: list[str] = field(default_factory=list)
    bound: int = 0
    proven: bool = False
    relaxed: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    why: str = ""


def find_candidates(board: Board) -> tuple[list[Candidate], tuple[Refusal, ...]]:
    """Nodes whose GPU pods may all move, cheapest first; and the pods that stand in the way elsewhere."""
    found: list[Candidate] = []
    refused: list[Refusal] = []
    for name, room in board.final.by_node.items():
        guests = tuple(pod for _, pod in sorted(room.pods.items()) if asks_gpu(pod))
        if not room.node.gpus or not guests or not is_open_node(room.node):
            continue
        fixed = [pod for pod in guests if not board.may_leave(pod)]
        refused += [Refusal(pod.key, board.rules.judge(pod).reasons[0]) for pod in fixed]
        if not fixed:
            found.append(Candidate(name, guests, sum(board.cost(pod) for pod in guests)))
    found.sort(key=lambda one: (len(one.guests), one.cost, one.node))
    return found, tuple(refused)


def choose_free_nodes(
    board: Board, max_moves: int, deadline: Deadline, tell: Tell = tell_nobody
) -> FreedNodes:
    """A greedy first answer, then the exact program if there may be a better one."""
    candidates, refused = find_candidates(board)
    search = _Search(board, candidates, max_moves, deadline, tell)
    search.run()
    why = "" if search.freed else _why_none(board, candidates, refused, max_moves)
    relaxed = (BETWEEN_PODS,) if search.left_out else ()
    return FreedNodes(search.freed, search.bound, search.is_proven, relaxed, refused, why)


def _why_none(board: Board, candidates: list[Candidate], refused: tuple[Refusal, ...], max_moves: int) -> str:
    """Who stands in the way: pods that may not leave, too few moves, or no room elsewhere."""
    if not candidates and not refused:
        return "No node has GPU pods that could be moved: there is nothing to free."
    if not candidates:
        reason, number = Counter(one.reason for one in refused).most_common(1)[0]
        return f"Every node with GPU pods holds one that may not move ({number} of {len(refused)}: {reason})"
    first = candidates[0]
    if len(first.guests) > max_moves:
        return f"Emptying even {first.node} takes {len(first.guests)} moves; {max_moves} are allowed."
    lost = next((pod for pod in first.guests if not board.has_target(pod, first.node)), None)
    if lost is not None:
        return f"No other node has room for {lost.key}, and no other node can be emptied, either."
    return f"No other nodes together have room for the pods of {first.node}, or of any other node."


BETWEEN_PODS = (
    "Rules between pods (affinity, spread, anti-affinity by more than the host) are asked move by move and"
    " not in the bound."
)


class _Search:
    """The best so far is what is on the board. bound: no plan can free more. fewest: no plan that frees as
    many as the bound takes fewer moves; None where that is not known."""

    def __init__(
        self, board: Board, candidates: list[Candidate], max_moves: int, deadline: Deadline, tell: Tell
    ) -> None:
        self.board, self.candidates, self.max_moves = board, candidates, max_moves
        self.deadline, self.tell = deadline, tell
        self.freed: list[str] = []
        self.bound = count_within(candidates, max_moves)
        self.fewest: int | None = _fewest_guests(candidates, self.bound)
        self.mark = board.checkpoint()
        self.left_out = False

    @property
    def is_proven(self) -> bool:
        return len(self.freed) == self.bound and len(self.board.moves) == self.fewest

    def run(self) -> None:
        self.freed = _empty_greedily(self.board, self.candidates, self.max_moves, self.deadline)
        self._say("The least used nodes are emptied first.")
        ideal = sum(one.cost for one in self.candidates[: self.bound])
        if (self.is_proven and self._value()[2] >= -ideal) or self.deadline():
            return
        useful = _worth_asking(self.candidates, self.max_moves, len(self.freed), len(self.board.moves))
        program = self._write_program(useful)
        self.left_out = program.left_out
        if program.is_counted and self._ask_relaxed(program):
            return
        self._ask_whole(program)

    def _write_program(self, useful: list[Candidate]) -> FreeNodesProgram:
        """Of the board as it is before any move."""
        kept = self.board.kept_since(self.mark)
        self.board.undo(self.mark)
        program = FreeNodesProgram(self.board, useful, self.max_moves, self.deadline)
        self.board.redo(kept)
        return program

    def _ask_relaxed(self, program: FreeNodesProgram) -> bool:
        """Whether that settled it."""
        if self._follow_linear(program):
            return True
        answer = program.solve(len(self.freed), self.bound, relaxed=True)
        if answer is None:
            return program.was_late
        self._learn(answer)
        self._try(answer)
        self._say("A relaxed program has given a bound.")
        if self.is_proven:
            self._make_cheaper(program, answer, relaxed=True)
            return True
        among = {*self.freed, *answer.sources}
        better = program.solve(len(self.freed), self.bound, among=among)
        if better is not None:
            self._try(better)
            self._say("The nodes at hand have been combined.")
        return self.is_proven

    def _follow_linear(self, program: FreeNodesProgram) -> bool:
        """A bound, and a plan that follows its fractions, long before there are whole numbers; whether that
        settled it."""
        guide = program.guide(len(self.freed), self.bound)
        if guide is None:
            return False
        self.bound = max(min(self.bound, guide.bound), len(self.freed))
        self.fewest = guide.moves if guide.bound == self.bound else None
        self._try(guide)
        self._say("Fractions have given a bound.")
        if self.is_proven:
            reached = replace(guide, sources=tuple(self.freed), proven=True)
            self._make_cheaper(program, reached, relaxed=True)
        return self.is_proven

    def _ask_whole(self, program: FreeNodesProgram) -> None:
        answer = program.solve(len(self.freed), self.bound)
        if answer is None:
            return
        self._learn(answer)
        self._try(answer)
        self._say("The exact program has answered.")
        self._make_cheaper(program, answer, relaxed=False)

    def _make_cheaper(self, program: FreeNodesProgram, answer: ExactAnswer, *, relaxed: bool) -> None:
        if len(answer.sources) != len(self.freed) or answer.moves != len(self.board.moves):
            return
        cheaper = program.cheapest(answer, relaxed=relaxed)
        if cheaper is not None:
            self._try(cheaper)

    def _learn(self, answer: ExactAnswer) -> None:
        """The bound falls; the fewest moves are known where the answer reaches it."""
        self.bound = max(min(self.bound, answer.bound), len(self.freed))
        reached = answer.proven and len(answer.sources) == self.bound
        self.fewest = answer.moves if reached else None

    def _try(self, answer: ExactAnswer) -> None:
        """More nodes, else fewer moves, else the cheaper; on a tie the program's answer."""
        board, before, greedy = self.board, self._value(), self.freed
        kept = board.kept_since(self.mark)
        board.undo(self.mark)
        self.freed = Realisation(board, answer).run(self.candidates)
        self.freed += _empty_greedily(board, self.candidates, self.max_moves, self.deadline)
        if self._value() < before:
            board.undo(self.mark)
            board.redo(kept)
            self.freed = greedy

    def _value(self) -> tuple[int, int, float]:
        moves = self.board.moves
        return len(self.freed), -len(moves), -sum(self.board.cost(planned.pod) for planned in moves)

    def _say(self, stage: str) -> None:
        self.tell(Progress(stage, len(self.freed), len(self.board.moves), self.bound))


def _worth_asking(candidates: list[Candidate], max_moves: int, freed: int, moves: int) -> list[Candidate]:
    """Leaves out nodes with so many pods that no answer with them can beat the one at hand."""
    more = max_moves - _fewest_guests(candidates, freed)
    same = moves - _fewest_guests(candidates, freed - 1)
    return [one for one in candidates if len(one.guests) <= max(more, same)]


def _fewest_guests(candidates: list[Candidate], number: int) -> int:
    return sum(len(one.guests) for one in candidates[: max(number, 0)])


def count_within(candidates: list[Candidate], max_moves: int) -> int:
    """How many nodes the moves would suffice for, had every pod a place to go."""
    spent = 0
    for number, candidate in enumerate(candidates):
        spent += len(candidate.guests)
        if spent > max_moves:
            return number
    return len(candidates)


def _empty_greedily(
    board: Board, candidates: list[Candidate], max_moves: int, deadline: Deadline
) -> list[str]:
    """Empty the least used node, tightest fit elsewhere, as long as moves are left."""
    freed: list[str] = []
    touched = {name for planned in board.moves for name in (planned.source, planned.target)}
    for candidate in candidates:
        if deadline() or len(board.moves) + len(candidate.guests) > max_moves:
            break
        if candidate.node not in touched and empty_node(board, candidate):
            freed.append(candidate.node)
            touched.update(planned.target for planned in board.moves[-len(candidate.guests) :])
    return freed


def empty_node(board: Board, candidate: Candidate) -> bool:
    mark = board.checkpoint()
    board.closed.add(candidate.node)
    order = sorted(
        candidate.guests,
        key=lambda pod: (-board.final.demand(pod).gpu_milli, -pod.requests.get("cpu", 0), pod.uid),
    )
    for pod in order:
        target = board.choose_target(pod, candidate.node)
        if target is None:
            board.undo(mark)
            return False
        board.move(pod, target)
    return True
