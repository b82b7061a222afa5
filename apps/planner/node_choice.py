"""Which nodes to clear for pods of one shape, as if every moved pod found a place: the cheapest set.

An exact knapsack, hence a lower bound on the moves. Nodes are asked for their clearings only when they
could be part of the best set: until then they stand with the least they could cost. Whatever was asked
before time is up still gives an answer. Not in here: where the moved pods go (unlock).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apps.planner.clearing import Clearing, Price
from apps.planner.clearing_table import ClearingTable
from apps.planner.inventory import Pod
from apps.planner.ranking import Option, Ranking
from apps.planner.selectors import selects_pod

Banned = set[tuple[str, int]]
ASKED_AT_FIRST = 8


class NodeChoice:
    """For pods of one shape on one board."""

    def __init__(self, table: ClearingTable, pods: Sequence[Pod], most_moves: int) -> None:
        self.table = table
        self.pod = pods[0]
        self.want = len(pods)
        self.most_moves = most_moves

    def fewest(self) -> list[int | None]:
        """For 0, 1, … pods: no plan can start so many with fewer moves. None: not at all."""
        options = [
            option for ranking in self._rankings() for option in ranking.fewest(self.want, self.most_moves)
        ]
        best = _fill_knapsack(options, self.want, self.most_moves)
        return [None if entry is None else entry[0][0] for entry in best]

    def choose(self, banned: Banned) -> list[Clearing] | None:
        """None: impossible within the moves, or not found in time (the table then knows of that)."""
        ahead = ASKED_AT_FIRST
        while True:
            # More of the cheapest nodes for one number of pods than pods are of no use to the best set.
            rankings = self._rankings()
            options = [
                option
                for ranking in rankings
                for option in ranking.cheapest(self.want, self.most_moves, banned)
            ]
            best = _fill_knapsack(options, self.want, self.most_moves)[self.want]
            if best is None:
                return None
            if all(option.clearing is not None for option in best[1]):
                return [option.clearing for option in best[1] if option.clearing is not None]
            following = (one for each in rankings for one in each.cheapest(ahead, self.most_moves, banned))
            if not self._ask([*best[1], *following]):
                return self._choose_known(banned)
            ahead *= 2

    def _rankings(self) -> list[Ranking]:
        """For 1, 2, … pods on one node, as long as any node could hold so many."""
        found: list[Ranking] = []
        for starts in range(1, min(self.want, most_per_node(self.pod)) + 1):
            ranking = self.table.ranking(self.pod, starts)
            if not ranking.least:
                break
            found.append(ranking)
        return found

    def _ask(self, options: Iterable[Option]) -> bool:
        """Let the table find these nodes' clearings. False: time is up."""
        for option in options:
            if option.clearing is None:
                if self.table.is_late():
                    return False
                self.table.fewest(self.pod, option.node, option.starts, self.most_moves)
        return True

    def _choose_known(self, banned: Banned) -> list[Clearing] | None:
        known = [
            option
            for ranking in self._rankings()
            for option in ranking.known()
            if (option.node, option.starts) not in banned
        ]
        best = _fill_knapsack(known, self.want, self.most_moves)[self.want]
        return None if best is None else [one.clearing for one in best[1] if one.clearing is not None]


def most_per_node(pod: Pod) -> int:
    """A pod that avoids its own kind comes once to a node."""
    shuns = any(selects_pod(term, pod.namespace, pod) for term in pod.pod_anti_affinity)
    return 1 if shuns else 10**6


def _fill_knapsack(
    options: Iterable[Option], want: int, most_moves: int
) -> list[tuple[Price, tuple[Option, ...]] | None]:
    """For 0 to `want` pods: the cheapest options, one per node at most, that start so many or more."""
    best: list[tuple[Price, tuple[Option, ...]] | None] = [((0, 0.0, 0), ()), *([None] * want)]
    by_node: dict[str, list[Option]] = {}
    for option in options:
        by_node.setdefault(option.node, []).append(option)
    for _, here in sorted(by_node.items()):
        for filled in range(want, 0, -1):
            for option in here:
                base = best[max(0, filled - option.starts)]
                if base is None:
                    continue
                total = add_prices(base[0], option.price)
                known = best[filled]
                if total[0] <= most_moves and (known is None or total < known[0]):
                    best[filled] = (total, (*base[1], option))
    return best


def add_prices(one: Price, other: Price) -> Price:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
