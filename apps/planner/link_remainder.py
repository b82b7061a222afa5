"""What GPUs of one node are still good for: how many 8-, 4- and 2-GPU requests at once, by their links.

Exact for up to 16 GPUs (disjoint groups, found by search and remembered per matrix); of larger and wilder
matrices a lower bound. Not in here: which group to give out (link_choice).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

REQUESTS = (8, 4, 2)
MOST_STEPS = 20_000


class Remainder:
    """near: by rank, for each GPU the others that it reaches by such a link or a better one, as bits."""

    def __init__(self, near: dict[int, Sequence[int]]) -> None:
        self._near = near
        self._worths: dict[int, tuple[int, ...]] = {}
        self._counts: dict[tuple[int, int, int], int] = {}
        self._steps = 0

    def worth(self, free: int) -> tuple[int, ...]:
        """More is better: by the best links first, by the largest request first. free: GPUs as bits."""
        known = self._worths.get(free)
        if known is None:
            known = self._worths[free] = tuple(
                self._count(rank, size, free)
                for rank in sorted(self._near, reverse=True)
                for size in REQUESTS
            )
        return known

    def _count(self, rank: int, size: int, free: int) -> int:
        self._steps = MOST_STEPS
        return self._most(rank, size, free)

    def _most(self, rank: int, size: int, free: int) -> int:
        """The most groups of `size` that share no GPU and in which each pair is tied so."""
        free = self._without_loners(rank, size, free)
        limit = free.bit_count() // size
        if limit < 1:
            return 0
        key = (rank, size, free)
        known = self._counts.get(key)
        if known is not None:
            return known
        first, best = free & -free, 0
        for group in self._groups_with(
            rank, first, self._near[rank][first.bit_length() - 1] & free, size - 1
        ):
            best = max(best, 1 + self._most(rank, size, free & ~group))
            self._steps -= 1
            if best >= limit or self._steps < 0:
                break
        if best < limit and self._steps >= 0:
            best = max(best, self._most(rank, size, free & ~first))
        if self._steps >= 0:
            self._counts[key] = best
        return best

    def _without_loners(self, rank: int, size: int, free: int) -> int:
        """GPUs with too few links to be in any group are left out, again and again."""
        near, rest = self._near[rank], -1
        while rest != free:
            rest, left = free, free
            while left:
                low = left & -left
                left &= ~low
                if (near[low.bit_length() - 1] & free).bit_count() < size - 1:
                    free &= ~low
        return free

    def _groups_with(self, rank: int, group: int, candidates: int, missing: int) -> Iterator[int]:
        if not missing:
            yield group
            return
        while candidates.bit_count() >= missing:
            low = candidates & -candidates
            candidates &= ~low
            near = self._near[rank][low.bit_length() - 1]
            yield from self._groups_with(rank, group | low, candidates & near, missing - 1)
