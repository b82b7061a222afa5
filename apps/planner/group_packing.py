"""How many groups of linked GPUs still fit on a node: disjoint groups of N, each pair tied by a link class.

Exact where the tied GPUs fall into groups that are tied throughout, and for odder matrices of up to 12 free
GPUs that hang together (every way is tried). Beyond that it is what a bounded search found, so at least so
many fit. Not in here: which GPUs one pod gets (link_choice).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import repeat

from apps.planner.inventory import LinkClass
from apps.planner.rooms import Room
from apps.planner.topology import RANK, Codes, knows_links, link_class

LINK_CLASSES = (LinkClass.NVLINK, LinkClass.PCIE_SWITCH, LinkClass.NUMA, LinkClass.NODE)
GROUP_SIZES = (2, 4, 8)
EXACT_UP_TO = 12
MOST_STEPS = 2000
Masks = tuple[int, ...]
"""Per GPU, those that it is tied to, as bits."""


def count_link_groups(room: Room) -> tuple[int, ...]:
    """For each of LINK_CLASSES, and in it each of GROUP_SIZES: how many groups of wholly free GPUs fit,
    were no others to come. Only "node" counts where links, or which GPUs are free, are not known."""
    free = room.free_positions()
    if not are_links_told(room, free):
        unknown = (0,) * (len(GROUP_SIZES) * (len(LINK_CLASSES) - 1))
        return (*unknown, *(len(free) // size for size in GROUP_SIZES))
    assert room.node.topology is not None
    return _count_all(room.node.topology.links, free)


def most_groups(room: Room, size: int, link: LinkClass) -> int:
    """How many groups of `size` free GPUs fit at once; UNKNOWN and NODE ask for no link."""
    free = room.free_positions()
    if link in (LinkClass.UNKNOWN, LinkClass.NODE) or size == 1:
        return len(free) // size
    if len(free) < size or not are_links_told(room, free):
        return 0
    assert room.node.topology is not None
    return _pack(_ties(room.node.topology.links, RANK[link]), _bits(free), size)


def are_links_told(room: Room, free: tuple[int, ...]) -> bool:
    """Whether it is known how the free GPUs are tied, and which they are."""
    return knows_links(room.node) and (room.located or len(free) == len(room.usable))


@lru_cache(maxsize=65536)
def _count_all(links: Codes, free: tuple[int, ...]) -> tuple[int, ...]:
    mask = _bits(free)
    return tuple(
        len(free) // size if link is LinkClass.NODE else _pack(_ties(links, RANK[link]), mask, size)
        for link in LINK_CLASSES
        for size in GROUP_SIZES
    )


@lru_cache(maxsize=4096)
def _ties(links: Codes, rank: int) -> Masks:
    """By the worse direction of each pair."""
    ranks = [[RANK[link_class(code)] for code in row] for row in links]
    return tuple(
        _bits(at for at in range(len(links)) if at != one and min(ranks[one][at], ranks[at][one]) >= rank)
        for one in range(len(links))
    )


def _bits(positions: Iterable[int]) -> int:
    return sum(1 << at for at in positions)


def _members(mask: int) -> list[int]:
    return [at for at in range(mask.bit_length()) if mask >> at & 1]


def _pack(ties: Masks, free: int, size: int) -> int:
    found = 0
    while free:
        part = _connected(ties, free)
        free &= ~part
        found += _pack_part(ties, part, size)
    return found


def _connected(ties: Masks, free: int) -> int:
    """The free GPUs that hang together with the first of them."""
    part, waiting = 0, free & -free
    while waiting:
        part |= waiting
        reached = 0
        for at in _members(waiting):
            reached |= ties[at]
        waiting = reached & free & ~part
    return part


@lru_cache(maxsize=65536)
def _pack_part(ties: Masks, part: int, size: int) -> int:
    members = _members(part)
    if all(part & ~ties[at] == 1 << at for at in members):
        return len(members) // size
    if len(members) > EXACT_UP_TO:
        return _pack_greedily(ties, part, size)
    return _try_all(ties, part, size, {})


def _try_all(ties: Masks, part: int, size: int, known: dict[int, int]) -> int:
    if part.bit_count() < size:
        return 0
    if part not in known:
        first = part & -part
        rest, tied = part ^ first, ties[first.bit_length() - 1]
        best, most = _try_all(ties, rest, size, known), part.bit_count() // size
        for group in _groups_with(ties, first, rest & tied, size - 1, repeat(1)):
            if best == most:
                break
            best = max(best, 1 + _try_all(ties, part & ~group, size, known))
        known[part] = best
    return known[part]


def _groups_with(ties: Masks, group: int, others: int, missing: int, steps: Iterator[int]) -> Iterator[int]:
    """The group, made full by `missing` of the others in every way, until the steps are used up."""
    if not missing:
        yield group
        return
    while others.bit_count() >= missing and next(steps, 0):
        one = others & -others
        others ^= one
        yield from _groups_with(ties, group | one, others & ties[one.bit_length() - 1], missing - 1, steps)


def _pack_greedily(ties: Masks, part: int, size: int) -> int:
    """The GPU with the fewest ties first, each time in the first group that it can be in."""
    found, left = 0, part
    while left:
        at = min(_members(left), key=lambda at: ((ties[at] & left).bit_count(), at))
        group = next(_groups_with(ties, 1 << at, left & ties[at], size - 1, repeat(1, MOST_STEPS)), 0)
        found += group > 0
        left &= ~(group or 1 << at)
    return found
