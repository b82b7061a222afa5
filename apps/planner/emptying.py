"""Nodes that can be emptied, and an answer of the exact program put on the board, pod by pod."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from apps.planner.capacity import shape_key
from apps.planner.inventory import Pod
from apps.planner.placement import Board


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that could be emptied: all its GPU pods may move."""

    node: str
    guests: tuple[Pod, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """sources: nodes to empty. room: per target, how many arrivals of each shape. bound: on the nodes."""

    sources: tuple[str, ...]
    room: tuple[tuple[str, dict[Hashable, int]], ...]
    bound: int
    proven: bool
    moves: int = 0


class Realisation:
    """The program's answer on the board; a node whose pods do not all find room stays as it was.

    failed: those nodes, after a second try when all others have been emptied.
    """

    def __init__(self, board: Board, answer: ExactAnswer) -> None:
        self.board = board
        self.answer = answer
        self.failed: list[str] = []
        self.places: dict[Hashable, Counter[str]] = defaultdict(Counter)
        for name, counts in answer.room:
            for key, count in counts.items():
                self.places[key][name] += count

    def run(self, candidates: Sequence[Candidate]) -> list[str]:
        board = self.board
        guests = {candidate.node: candidate.guests for candidate in candidates}
        board.closed.update(self.answer.sources)
        freed, missed = self._empty_each(self.answer.sources, guests)
        again, self.failed = self._empty_each(missed, guests) if missed else ([], [])
        return freed + again

    def _empty_each(
        self, names: Sequence[str], guests: dict[str, tuple[Pod, ...]]
    ) -> tuple[list[str], list[str]]:
        """(emptied, not emptied); nodes that have taken pods in meanwhile are not tried."""
        board = self.board
        freed: list[str] = []
        missed: list[str] = []
        for name in names:
            if any(planned.target == name for planned in board.moves):
                missed.append(name)
                continue
            mark = board.checkpoint()
            board.closed.add(name)
            used: list[tuple[Hashable, str]] = []
            if all(self._send(pod, name, used) for pod in _largest_first(board, guests[name])):
                freed.append(name)
                continue
            board.undo(mark)
            board.closed.discard(name)
            missed.append(name)
            for key, target in used:
                self.places[key][target] += 1
        return freed, missed

    def _send(self, pod: Pod, source: str, used: list[tuple[Hashable, str]]) -> bool:
        target = send_pod(self.board, pod, source, self.places)
        key = shape_key(self.board, pod)
        if target is None:
            return make_place(self.board, pod, source)
        if target in self.places[key]:
            used.append((key, target))
        return True


def make_place(board: Board, pod: Pod, source: str) -> bool:
    """Move the pod to where an earlier move goes, and that one elsewhere."""
    if board.fitting.needs_neighbours(pod):
        return False
    open_nodes = frozenset(board.open_nodes(pod)).difference(board.closed, board.kept_free)
    tried: set[tuple[Hashable, str]] = set()
    for at, move in enumerate(board.moves):
        key = (board.shape(move.pod), move.target)
        if move.target not in open_nodes or key in tried or board.fitting.needs_neighbours(move.pod):
            continue
        tried.add(key)
        if not board.could_swap_in(pod, at):
            continue
        board.closed.add(move.target)
        elsewhere = board.choose_target(move.pod, move.source)
        board.closed.discard(move.target)
        if elsewhere is not None:
            board.retarget(at, elsewhere)
            board.move(pod, move.target)
            return True
    return False


def send_pod(board: Board, pod: Pod, source: str, places: dict[Hashable, Counter[str]]) -> str | None:
    """Move the pod to a place that the program gave its shape, else anywhere tight; where it went."""
    reserved = places[shape_key(board, pod)]
    for name, count in reserved.items():
        if count > 0 and board.accepts(pod, source, name):
            reserved[name] -= 1
            board.move(pod, name)
            return name
    target = board.choose_target(pod, source)
    if target is not None:
        board.move(pod, target)
    return target


def _largest_first(board: Board, pods: Sequence[Pod]) -> list[Pod]:
    return sorted(
        pods, key=lambda pod: (-board.final.demand(pod).gpu_milli, -pod.requests.get("cpu", 0), pod.uid)
    )
