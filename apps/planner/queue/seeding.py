"""The cheapest ways to make room for one large pod each: columns to begin a search with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from apps.planner.capacity import shape_key
from apps.planner.clearing_table import ClearingTable
from apps.planner.queue.columns import Column, count_kinds
from apps.planner.queue.wishes import Wish
from apps.planner.ranking import Option

CHEAPEST = 8
WAYS = 10
MOST_LOOKS = 20


def list_large(
    at: int,
    wish: Wish,
    clearings: ClearingTable,
    kinds: Mapping[Hashable, int],
    most_moves: int,
    is_late: Callable[[], bool],
) -> Iterator[Column]:
    """at: number of the wish. kinds: numbers of the shapes that could leave."""
    for option in _cheapest(wish, clearings, most_moves, is_late):
        if is_late():
            return
        for one in clearings.options(wish.pod, option.node, 1, most_moves)[:WAYS]:
            found = [kinds.get(shape_key(clearings.board, pod)) for pod in one.victims]
            leaves = [kind for kind in found if kind is not None]
            if len(leaves) == len(found):
                yield Column(one.node, one.victims, count_kinds(leaves), ((at, 1),), (), one.cost)


def _cheapest(
    wish: Wish, clearings: ClearingTable, most_moves: int, is_late: Callable[[], bool]
) -> list[Option]:
    """The nodes that take the fewest moves, asked until those in front are known to be in front."""
    nodes: list[Option] = []
    for _ in range(MOST_LOOKS):
        ranking = clearings.ranking(wish.pod, 1)
        nodes = ranking.cheapest(CHEAPEST * (wish.count + 1), most_moves)
        unknown = [option for option in nodes if option.clearing is None]
        for option in unknown:
            clearings.fewest(wish.pod, option.node, 1, most_moves)
        if not unknown or is_late():
            break
    return nodes
