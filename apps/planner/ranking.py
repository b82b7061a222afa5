"""Nodes by what it takes to start pods of one shape there, cheapest first.

A node that was not asked yet stands with the least that it could take; the order is kept up to date
as the board changes. Not in here: how nodes are combined for several pods (node_choice).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from dataclasses import dataclass
from heapq import nsmallest

from apps.planner.clearing import Clearing, Price
from apps.planner.inventory import Pod
from apps.planner.least_moves import Least, least_moves
from apps.planner.placement import Board
from apps.planner.resources import asks_gpu


@dataclass(frozen=True, slots=True)
class Option:
    """One node for `starts` pods. clearing: None as long as only the least price is known."""

    node: str
    starts: int
    price: Price
    clearing: Clearing | None = None


class Ranking:
    """For `starts` pods of the shape of `pod`. least: bounds by node, of all that could hold so many."""

    def __init__(self, board: Board, pod: Pod, starts: int) -> None:
        self.board = board
        self.pod = pod
        self.starts = starts
        self.least: dict[str, Least] = {}
        self._demand = board.final.demand(pod)
        self._options: dict[str, Option] = {}
        self._order: list[tuple[Price, str]] = []
        self._open = frozenset(board.open_nodes(pod))
        self._seen = len(board.touched)
        for name in board.open_nodes(pod):
            self._look_at(name)
        self._order.sort()

    def cheapest(self, count: int, most_moves: int, banned: Container[tuple[str, int]] = ()) -> list[Option]:
        found: list[Option] = []
        for price, name in self._order:
            if len(found) >= count or price[0] > most_moves:
                break
            if (name, self.starts) not in banned:
                found.append(self._options[name])
        return found

    def fewest(self, count: int, most_moves: int) -> list[Option]:
        """The nodes with the least moves, whatever was found out about them since: a bound for certain."""
        each = ((least[0], name) for name, least in self.least.items() if least[0] <= most_moves)
        return [Option(name, self.starts, (moves, 0.0, 0)) for moves, name in nsmallest(count, each)]

    def note(self, name: str, clearing: Clearing | None) -> None:
        """What the node really takes; None: it cannot be cleared."""
        before = self._options.pop(name, None)
        if before is not None:
            del self._order[bisect_left(self._order, (before.price, name))]
        if clearing is not None:
            self._options[name] = Option(name, self.starts, clearing.price, clearing)
            insort(self._order, (clearing.price, name))

    def refresh(self) -> None:
        """Look again at the nodes that changed on the board."""
        for name in set(self.board.touched[self._seen :]) & self._open:
            self.note(name, None)
            self.least.pop(name, None)
            self._look_at(name)
            if name in self._options:
                insort(self._order, self._order.pop())
        self._seen = len(self.board.touched)

    def known(self) -> Iterator[Option]:
        return (option for option in self._options.values() if option.clearing is not None)

    def _look_at(self, name: str) -> None:
        room = self.board.final.by_node[name]
        least = least_moves(self.board, room, self._demand, self.starts)
        if least is None:
            return
        self.least[name] = least
        option = Option(name, self.starts, self._least_price(name, least))
        self._options[name] = option
        self._order.append((option.price, name))

    def _least_price(self, name: str, least: Least) -> Price:
        """Exact for a node whose GPU pods must all leave."""
        if not least[0]:
            return 0, 0.0, 0
        guests = [pod for pod in self.board.final.by_node[name].pods.values() if asks_gpu(pod)]
        cost = sum(nsmallest(least[1], map(self.board.cost, guests)))
        return least[0], cost, -int(0 < len(guests) <= least[0])
