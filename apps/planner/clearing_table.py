"""The clearings of each node for each shape of pod, remembered until the node changes."""

from __future__ import annotations

from collections.abc import Callable

from apps.planner.clearing import Clearing, NodeClearing, group_pods, list_rivals
from apps.planner.inventory import Pod
from apps.planner.placement import Board
from apps.planner.ranking import Ranking

Deadline = Callable[[], bool]


class ClearingTable:
    """is_complete: whether all that was asked so far was enumerated to its end, and in time."""

    def __init__(self, board: Board, deadline: Deadline) -> None:
        self.board = board
        self.deadline = deadline
        self.is_complete = True
        self._groups: dict[tuple[str, bool], tuple[int, list[list[Pod]]]] = {}
        self._known: dict[tuple[object, str, int], tuple[int, int, list[Clearing]]] = {}
        self._rankings: dict[tuple[object, int], Ranking] = {}

    def options(self, pod: Pod, node_name: str, starts: int, most_moves: int) -> list[Clearing]:
        """Fewest moves first. What is not known yet when time is up stays unknown."""
        key = (self._kind(pod), node_name, starts)
        version = self.board.version[node_name]
        known = self._known.get(key)
        if known is None or known[0] != version or (known[1] < most_moves and not known[2]):
            if self.is_late():
                return []
            found = self._find(pod, node_name, starts, most_moves)
            known = self._known[key] = (version, most_moves, found)
            self.ranking(pod, starts).note(node_name, next(iter(found), None))
        return [option for option in known[2] if len(option.victims) <= most_moves]

    def fewest(self, pod: Pod, node_name: str, starts: int, most_moves: int) -> Clearing | None:
        return next(iter(self.options(pod, node_name, starts, most_moves)), None)

    def ranking(self, pod: Pod, starts: int) -> Ranking:
        """All nodes by what they take, as the board is now."""
        key = (self._kind(pod), starts)
        found = self._rankings.get(key)
        if found is None:
            found = self._rankings[key] = Ranking(self.board, pod, starts)
        found.refresh()
        return found

    def is_late(self) -> bool:
        """Whether time is up: then something stays unasked, and nothing is proven."""
        if self.deadline():
            self.is_complete = False
            return True
        return False

    def _find(self, pod: Pod, node_name: str, starts: int, most_moves: int) -> list[Clearing]:
        demand = self.board.final.demand(pod)
        groups = self._groups_of(node_name, demand.link is not None)
        rivals = list_rivals(self.board, pod, node_name)
        node = NodeClearing(self.board, node_name, demand, groups, rivals)
        found = node.find(starts, most_moves)
        # What was found first is the fewest; a search that gave up before that proves nothing.
        self.is_complete = self.is_complete and (node.is_complete or bool(found))
        return found

    def _kind(self, pod: Pod) -> object:
        """Equal for pods that ask the same of a node, and whom the same pods keep off it."""
        shape = self.board.shape(pod)
        if not self.board.fitting.needs_neighbours(pod):
            return shape
        return shape, pod.namespace, tuple(sorted(pod.labels.items())), pod.pod_anti_affinity

    def _groups_of(self, node_name: str, by_device: bool) -> list[list[Pod]]:
        version, key = self.board.version[node_name], (node_name, by_device)
        if key not in self._groups or self._groups[key][0] != version:
            self._groups[key] = (version, group_pods(self.board, node_name, by_device))
        return self._groups[key][1]
