"""Link classes between the GPUs of one node, and the best group of N of them.

Exact by enumeration, remembered per distinct matrix. GPUs are named by their position in
`node.gpus`, which is the order of the matrix. Not in here: what is free (rooms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from apps.planner.inventory import LinkClass, Node, Topology

Matrix = tuple[tuple[LinkClass, ...], ...]
Codes = tuple[tuple[str, ...], ...]

RANK = {
    LinkClass.NVLINK: 4,
    LinkClass.PCIE_SWITCH: 3,
    LinkClass.NUMA: 2,
    LinkClass.NODE: 1,
    LinkClass.UNKNOWN: 0,
}
CODES = {
    "PIX": LinkClass.PCIE_SWITCH,
    "PXB": LinkClass.PCIE_SWITCH,
    "PHB": LinkClass.NUMA,
    "NODE": LinkClass.NUMA,
    "SYS": LinkClass.NODE,
    "SOC": LinkClass.NODE,
    "XGMI": LinkClass.NVLINK,
    "HCCS": LinkClass.NVLINK,
    "HCCS_SW": LinkClass.NVLINK,
    "MX": LinkClass.NVLINK,
}
BONDED = re.compile(r"^(NV|MTL|XL)(\d+)$")
BANDWIDTH = {LinkClass.PCIE_SWITCH: 64, LinkClass.NUMA: 48, LinkClass.NODE: 32}
"""Rough GB/s, both ways, only to order groups of one node among each other."""


def link_class(code: str) -> LinkClass:
    """What a cell of `nvidia-smi topo -m` (or a relative's) means; UNKNOWN for words never seen."""
    word = code.strip().upper()
    return LinkClass.NVLINK if BONDED.match(word) else CODES.get(word, LinkClass.UNKNOWN)


def class_matrix(topology: Topology) -> Matrix:
    return tuple(tuple(link_class(code) for code in row) for row in topology.links)


def knows_links(node: Node) -> bool:
    """Whether the node's matrix speaks of all its GPUs."""
    if node.topology is None or len(node.topology.links) != len(node.gpus):
        return False
    return all(len(row) == len(node.gpus) for row in node.topology.links)


def best_group(
    node: Node, free_indexes: Iterable[int], count: int, wanted: LinkClass | None = None
) -> tuple[int, ...] | None:
    """The positions of `count` free GPUs that belong together, or None if no group meets `wanted`.

    Best worst link first, then most bandwidth, then the remainder that still serves the
    largest power-of-two requests, then the lowest positions.
    """
    free = tuple(sorted(free_indexes))
    if count <= 0 or len(free) < count:
        return None
    if not knows_links(node):
        return None if wanted not in (None, LinkClass.NODE) else free[:count]
    if count == 1 and len(free) == 1:
        return free
    assert node.topology is not None
    group = _choose_group(node.topology.links, free, count)
    if wanted is None or count == 1 or _worst_rank(node.topology.links, group) >= RANK[wanted]:
        return group
    return None


def largest_group(node: Node, free_indexes: Iterable[int], link: LinkClass) -> int:
    """How many free GPUs can be taken so that each pair is tied by `link` or better.

    0 where the links are unknown and a link class is wanted.
    """
    free = tuple(sorted(free_indexes))
    if link is LinkClass.NODE:
        return len(free)
    if not knows_links(node):
        return 0
    assert node.topology is not None
    return _largest_clique(node.topology.links, free, RANK[link])


@lru_cache(maxsize=4096)
def _pairs(links: Codes) -> tuple[tuple[tuple[int, int], ...], ...]:
    """(rank, bandwidth) of each pair; the worse of both directions."""
    size = len(links)
    return tuple(
        tuple(min(_weigh(links[a][b]), _weigh(links[b][a])) for b in range(size)) for a in range(size)
    )


def _weigh(code: str) -> tuple[int, int]:
    kind = link_class(code)
    bonded = BONDED.match(code.strip().upper())
    bandwidth = 50 * int(bonded.group(2)) if bonded else BANDWIDTH.get(kind, 0)
    return RANK[kind], bandwidth or (300 if kind is LinkClass.NVLINK else 0)


@lru_cache(maxsize=4096)
def _worst_rank(links: Codes, group: tuple[int, ...]) -> int:
    pairs = _pairs(links)
    return min((pairs[a][b][0] for a, b in combinations(group, 2)), default=RANK[LinkClass.NVLINK])


@lru_cache(maxsize=65536)
def _choose_group(links: Codes, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    pairs = _pairs(links)
    best_key: tuple[int, int] | None = None
    tied: list[tuple[int, ...]] = []
    for group in combinations(free, count):
        weights = [pairs[a][b] for a, b in combinations(group, 2)]
        key = (min((rank for rank, _ in weights), default=4), sum(width for _, width in weights))
        if best_key is None or key > best_key:
            best_key, tied = key, [group]
        elif key == best_key:
            tied.append(group)
    if len(tied) == 1:
        return tied[0]
    return max(tied, key=lambda group: (_remainder_worth(links, free, group), tuple(-i for i in group)))


@lru_cache(maxsize=65536)
def _remainder_worth(links: Codes, free: tuple[int, ...], group: tuple[int, ...]) -> tuple[int, int]:
    rest = tuple(index for index in free if index not in group)
    best = _largest_clique(links, rest, RANK[LinkClass.NVLINK])
    near = _largest_clique(links, rest, RANK[LinkClass.NUMA])
    return _power_of_two(best), _power_of_two(near)


def _power_of_two(count: int) -> int:
    return 1 << (count.bit_length() - 1) if count else 0


@lru_cache(maxsize=65536)
def _largest_clique(links: Codes, free: tuple[int, ...], rank: int) -> int:
    pairs = _pairs(links)
    near = {a: {b for b in free if b != a and pairs[a][b][0] >= rank} for a in free}

    def grow(size: int, candidates: set[int], best: int) -> int:
        best = max(best, size)
        while candidates and size + len(candidates) > best:
            member = candidates.pop()
            best = grow(size + 1, candidates & near[member], best)
        return best

    return grow(0, set(free), 0)
