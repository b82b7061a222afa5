"""Free whole nodes: which to empty, and where their GPU pods go.

Only GPU pods move; a free node may keep CPU pods and DaemonSets. Nodes that are free already
stay free. Not in here: the exact program (exact), the wording (wording).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.planner.clearing_table import Deadline
from apps.planner.emptying import Candidate, ExactAnswer, Realisation
from apps.planner.free_nodes_exact import FreeNodesProgram
from apps.planner.placement import Board, Mark
from apps.planner.plan import Refusal
from apps.planner.resources import asks_gpu
from apps.planner.rooms import is_open_node


@dataclass(slots=True)
class FreedNodes:
    """bound: no plan within the moves can free more nodes. proven: bound and moves are both reached."""

    freed: list[str] = field(default_factory=list)
    bound: int = 0
    proven: bool = False
    relaxed: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()


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


def choose_free_nodes(board: Board, max_moves: int, deadline: Deadline) -> FreedNodes:
    """A greedy first answer, then the exact program if there may be a better one."""
    candidates, refused = find_candidates(board)
    bound = count_within(candidates, max_moves)
    mark = board.checkpoint()
    freed = _empty_greedily(board, candidates, max_moves, deadline)
    ideal = candidates[:bound]
    if _value(board, freed) >= (bound, -_fewest_guests(candidates, bound), -sum(one.cost for one in ideal)):
        return FreedNodes(freed, bound, proven=True, refused=refused)
    if deadline():
        return FreedNodes(freed, bound, refused=refused)
    useful = _worth_asking(candidates, max_moves, len(freed), len(board.moves))
    program = FreeNodesProgram(Board(board.snapshot, board.policy), useful, max_moves, deadline)
    answer = program.solve(len(freed))
    if answer is None:
        return FreedNodes(freed, bound, refused=refused)
    freed = _keep_better(board, mark, freed, answer, useful)
    bound = min(bound, max(answer.bound, len(freed)))
    proven = len(freed) == bound and answer.proven and len(board.moves) == answer.moves
    return FreedNodes(freed, bound, proven, refused=refused)


def _keep_better(
    board: Board,
    mark: Mark,
    greedy: list[str],
    answer: ExactAnswer,
    candidates: Sequence[Candidate],
) -> list[str]:
    """More nodes, else fewer moves, else the cheaper; on a tie the program's answer."""
    before = _value(board, greedy)
    kept = board.kept_since(mark)
    board.undo(mark)
    freed = Realisation(board, answer).run(candidates)
    if _value(board, freed) >= before:
        return freed
    board.undo(mark)
    board.redo(kept)
    return greedy


def _value(board: Board, freed: list[str]) -> tuple[int, int, float]:
    return len(freed), -len(board.moves), -sum(board.cost(planned.pod) for planned in board.moves)


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
    """Empty the least used node, tightest fit elsewhere."""
    freed: list[str] = []
    for candidate in candidates:
        if deadline() or len(board.moves) + len(candidate.guests) > max_moves:
            break
        if any(planned.target == candidate.node for planned in board.moves):
            continue
        if empty_node(board, candidate):
            freed.append(candidate.node)
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
