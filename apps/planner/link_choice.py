"""Chooses GPUs of one node by the links between them: the best group of N, and the largest tied group.

Exact where a node's GPUs are of at most 16 kinds (those with the same links are of one kind), so for every
node that is built. A larger and wilder matrix (an annotation may claim one) gets a group of the best class
there is, not always that with the most bandwidth, by a bounded search. A weight is (rank of the class, GB/s).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

from apps.planner.link_remainder import Remainder

Weights = tuple[tuple[tuple[int, int], ...], ...]


BEST_RANK = 4
REMAINDER_RANKS = (4, 3, 2)
"""NVLink, one PCIe switch, one NUMA node: what lies farther apart is no reason to spare a group."""
EXACT_UP_TO = 16
MOST_STEPS, STEPS_BEYOND = 80_000, 2_000
MOST_TIES = 13_000
"""More than the groups of 8 out of 16."""
MOST_REMEMBERED = 65_536


class Weighed:
    """A matrix's weights, told apart by identity: what is found out about them is remembered with them.

    chosen: by the free GPUs as bits and the number wanted, the best group.
    """

    __slots__ = ("of", "chosen", "remainder", "__weakref__")

    def __init__(self, of: Weights) -> None:
        self.of = of
        self.chosen: dict[tuple[int, int], tuple[int, ...]] = {}
        self.remainder = Remainder(
            {
                rank: tuple(
                    _bits(b for b, weight in enumerate(row) if b != a and weight[0] >= rank)
                    for a, row in enumerate(of)
                )
                for rank in REMAINDER_RANKS
            }
        )

    def choose(self, free: int, count: int) -> tuple[int, ...]:
        """The best `count` of the free ones (bits; as many at least), ascending."""
        known = self.chosen.get((free, count))
        if known is None:
            if len(self.chosen) >= MOST_REMEMBERED:
                self.chosen.clear()
            known = self.chosen[free, count] = _choose(self, _members(free), count)
        return known


class _Steps:
    """Counts down; says when a search has to make do with what it has."""

    def __init__(self, most: int) -> None:
        self.left = most

    def is_over(self) -> bool:
        self.left -= 1
        return self.left < 0


def _choose(weighed: Weighed, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Best worst link first, then most bandwidth, then the remainder that serves the most 8-, 4- and 2-GPU
    requests, then the lowest positions."""
    rank = next((rank for rank in range(BEST_RANK, 0, -1) if largest(weighed, free, rank) >= count), 0)
    kinds = alike(weighed, free)
    if len(kinds) > EXACT_UP_TO:
        return _largest_group(weighed, free, rank)[:count]
    best, tied, steps = -1, [], _Steps(MOST_STEPS)
    for group, width in _groups(weighed, kinds, count, rank, steps):
        if width > best:
            best, tied = width, [group]
        elif width == best and len(tied) < MOST_TIES:
            tied.append(group)
    if not tied:
        return _largest_group(weighed, free, rank)[:count]
    if len(tied) == 1:
        return tied[0]
    rest = _bits(free)

    def worth(group: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return weighed.remainder.worth(rest & ~_bits(group)), tuple(-one for one in group)

    return max(tied, key=worth)


@lru_cache(maxsize=65536)
def alike(weighed: Weighed, free: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Free GPUs in kinds: two of a kind have the same link to every other. Only their number matters then."""
    weights = weighed.of
    kinds: list[list[int]] = []
    for one in free:
        for kind in kinds:
            other = kind[0]
            if all(weights[one][at] == weights[other][at] for at in free if at not in (one, other)):
                kind.append(one)
                break
        else:
            kinds.append([one])
    return tuple(tuple(kind) for kind in kinds)


def _groups(
    weighed: Weighed, kinds: Sequence[tuple[int, ...]], count: int, rank: int, steps: _Steps
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Groups of `count` whose links are all of `rank` or better, with the sum of their bandwidths.

    Of each kind the lowest positions are taken.
    """
    weights = weighed.of
    left = [0] * (len(kinds) + 1)
    for at in range(len(kinds) - 1, -1, -1):
        left[at] = left[at + 1] + len(kinds[at])

    def take(at: int, chosen: tuple[int, ...], width: int) -> Iterator[tuple[tuple[int, ...], int]]:
        if len(chosen) == count:
            yield tuple(sorted(chosen)), width
            return
        if len(chosen) + left[at] < count or steps.is_over():
            return
        grown, wider = chosen, width
        fitting = [(chosen, width)]
        for member in kinds[at][: count - len(chosen)]:
            links = [weights[member][other] for other in grown]
            if any(link[0] < rank for link in links):
                break
            grown, wider = (*grown, member), wider + sum(link[1] for link in links)
            fitting.append((grown, wider))
        for grown, wider in reversed(fitting):
            yield from take(at + 1, grown, wider)

    yield from take(0, (), 0)


def largest(weighed: Weighed, free: tuple[int, ...], rank: int) -> int:
    """The size of the largest group of free ones whose links are all of `rank` or better."""
    return len(_largest_group(weighed, free, rank))


@lru_cache(maxsize=65536)
def _largest_group(weighed: Weighed, free: tuple[int, ...], rank: int) -> tuple[int, ...]:
    if rank <= 0 or len(free) < 2:
        return free
    near = {a: _bits(b for b in free if b != a and weighed.of[a][b][0] >= rank) for a in free}
    steps = _Steps(MOST_STEPS if len(free) <= 2 * EXACT_UP_TO else STEPS_BEYOND)
    best: tuple[int, ...] = ()

    def grow(group: tuple[int, ...], candidates: int) -> None:
        nonlocal best
        if len(group) > len(best):
            best = group
        for member, colours in reversed(_coloured(candidates, near)):
            if len(group) + colours <= len(best) or steps.is_over():
                return
            grow((*group, member), candidates & near[member])
            candidates &= ~(1 << member)

    grow((), _bits(free))
    return tuple(sorted(best))


def _coloured(candidates: int, near: dict[int, int]) -> list[tuple[int, int]]:
    """Candidates with a bound each: no larger group lies among it and those before it (greedy colouring)."""
    order: list[tuple[int, int]] = []
    colour, rest = 0, candidates
    while rest:
        colour += 1
        independent = rest
        while independent:
            low = independent & -independent
            member = low.bit_length() - 1
            independent &= ~(low | near[member])
            rest &= ~low
            order.append((member, colour))
    return order


def _bits(members: Iterator[int] | Sequence[int]) -> int:
    found = 0
    for member in members:
        found |= 1 << member
    return found


def _members(bits: int) -> tuple[int, ...]:
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)


def worst(weighed: Weighed, group: Sequence[int]) -> int:
    """The rank of a group's worst link; the best where it has none."""
    return min((weighed.of[a][b][0] for a, b in combinations(group, 2)), default=BEST_RANK)
