"""Link classes between the GPUs of one node, and the best group of N of them.

Exact (see `link_choice`), remembered per distinct matrix. GPUs are named by their position in
`node.gpus`, which is the order of the matrix. Not in here: what is free (rooms).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from apps.planner.inventory import LinkClass, Node, Topology
from apps.planner.link_choice import Weighed, largest, worst

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
    "HT": LinkClass.NVLINK,
    "SIO": LinkClass.NVLINK,
    "MLK": LinkClass.NVLINK,
    "MDF": LinkClass.NVLINK,
    "XL*": LinkClass.NVLINK,
    "PSB": LinkClass.PCIE_SWITCH,
    "MUL": LinkClass.PCIE_SWITCH,
    "PCIE": LinkClass.NODE,
}
"""Also of other makers: MetaX (MX, HT), Huawei (HCCS, SIO), Cambricon (MLK, MUL), Intel (XL, MDF), AMD
(XGMI; its PCIE says no more than that, so it counts as the farthest)."""
BONDED = re.compile(r"^(NV|MTL|MT|XL|IX)(\d{1,3})$")
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


def knows_every_link(node: Node) -> bool:
    """Whether the matrix says of each pair how it is tied: no cell is missing or a word never seen."""
    return knows_links(node) and node.topology is not None and _has_no_gap(node.topology.links)


@lru_cache(maxsize=4096)
def _has_no_gap(links: Codes) -> bool:
    return all(
        link_class(code) is not LinkClass.UNKNOWN
        for a, row in enumerate(links)
        for b, code in enumerate(row)
        if a != b
    )


def best_group(
    node: Node, free_indexes: Iterable[int], count: int, wanted: LinkClass | None = None
) -> tuple[int, ...] | None:
    """The positions of `count` free GPUs that belong together, or None if no group meets `wanted`.

    Best worst link first, then most bandwidth, then the remainder that still serves the most requests for
    8, 4 and 2 GPUs (closest links first), then the lowest positions.
    """
    free = 0
    for at in free_indexes:
        free |= 1 << at
    if count <= 0 or free.bit_count() < count:
        return None
    weighed = None if node.topology is None else _weighed_of(node.topology)
    if weighed is None or len(weighed.of) != len(node.gpus):
        fallback = tuple(at for at in range(free.bit_length()) if free >> at & 1)[:count]
        return None if wanted not in (None, LinkClass.NODE) else fallback
    group = weighed.choose(free, count)
    if wanted in (None, LinkClass.NODE) or count == 1 or worst(weighed, group) >= RANK[wanted]:
        return group
    return None


def largest_group(node: Node, free_indexes: Iterable[int], link: LinkClass) -> int:
    """How many free GPUs can be taken so that each pair is tied by `link` or better.

    0 where the links are unknown and a link class is wanted.
    """
    free = tuple(sorted(free_indexes))
    if link is LinkClass.NODE:
        return len(free)
    weighed = None if node.topology is None else _weighed_of(node.topology)
    if weighed is None or len(weighed.of) != len(node.gpus):
        return 0
    return largest(weighed, free, RANK[link])


_SEEN: dict[int, tuple[Topology, Weighed | None]] = {}
MOST_SEEN = 16_384


def _weighed_of(topology: Topology) -> Weighed | None:
    """None for a matrix that is not square. Asked for the same object again and again: a look by identity
    spares comparing whole matrices; equal matrices share one `Weighed`."""
    known = _SEEN.get(id(topology))
    if known is not None and known[0] is topology:
        return known[1]
    if len(_SEEN) >= MOST_SEEN:
        _SEEN.clear()
    links = topology.links
    is_square = all(len(row) == len(links) for row in links)
    weighed = _weighed(links) if is_square else None
    _SEEN[id(topology)] = (topology, weighed)
    return weighed


@lru_cache(maxsize=4096)
def _weighed(links: Codes) -> Weighed:
    """(rank, bandwidth) of each pair; the worse of both directions."""
    size = len(links)
    return Weighed(
        tuple(tuple(min(_weigh(links[a][b]), _weigh(links[b][a])) for b in range(size)) for a in range(size))
    )


def _weigh(code: str) -> tuple[int, int]:
    kind = link_class(code)
    bonded = BONDED.match(code.strip().upper())
    bandwidth = 50 * int(bonded.group(2)) if bonded else BANDWIDTH.get(kind, 0)
    return RANK[kind], bandwidth or (300 if kind is LinkClass.NVLINK else 0)
