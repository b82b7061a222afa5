"""Idle instances by node, with the node that has the fewest of a profile first.

Not in here: who may go there (seating, fitting).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping


class Stock:
    """counts: by node, by profile. groups: the kind of each node."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self.counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._groups = groups
        self._order: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def add(self, node: str, profile: str, number: int) -> None:
        left = self.counts[node]
        left[profile] += number
        order = self._order.get((profile, self._groups[node]))
        if order is not None and left[profile] > 0:
            heapq.heappush(order, (left[profile], node))

    def nodes_with(self, asked: Mapping[str, int], groups: frozenset[str]) -> Generator[str, None, None]:
        """Nodes of these groups with all that is asked, those with the fewest to spare first, then by name.

        Nothing may be added or taken while one walks.
        """
        if len(asked) != 1:
            yield from self._with_all(asked, groups)
            return
        ((profile, number),) = asked.items()
        walks = [self._walk(profile, group) for group in sorted(groups)]
        yield from (node for left, node in heapq.merge(*walks) if left >= number)

    def _with_all(self, asked: Mapping[str, int], groups: frozenset[str]) -> Iterator[str]:
        found = [
            (sum(left.get(profile, 0) for profile in asked), node)
            for node, left in self.counts.items()
            if self._groups[node] in groups
            and all(left.get(profile, 0) >= number for profile, number in asked.items())
        ]
        yield from (node for _, node in sorted(found))

    def _walk(self, profile: str, group: str) -> Iterator[tuple[int, str]]:
        """Entries that are out of date are thrown away on the way; the others are put back."""
        order = self._order.get((profile, group))
        if order is None:
            order = self._order[profile, group] = sorted(
                (left[profile], node)
                for node, left in self.counts.items()
                if self._groups[node] == group and left.get(profile, 0) > 0
            )
        seen: list[tuple[int, str]] = []
        try:
            while order:
                entry = heapq.heappop(order)
                is_new = not seen or entry != seen[-1]
                if is_new and self.counts[entry[1]].get(profile, 0) == entry[0]:
                    seen.append(entry)
                    yield entry
        finally:
            for entry in seen:
                heapq.heappush(order, entry)
