"""The checker's own reading of a node's link matrix: groups of GPUs tied closely enough.

Written apart from the planner's choice of links. Not in here: which GPUs are left (verification_books).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from apps.planner.inventory import LinkClass, Node, Pod

CLOSENESS = {LinkClass.NODE: 1, LinkClass.NUMA: 2, LinkClass.PCIE_SWITCH: 3, LinkClass.NVLINK: 4}
BONDED = re.compile(r"(NV|MTL|MT|XL|IX)\d{1,3}")
WORDS = {
    4: ("XGMI", "HCCS", "HCCS_SW", "MX", "HT", "SIO", "MLK", "MDF", "XL*"),
    3: ("PIX", "PXB", "PSB", "MUL"),
    2: ("PHB", "NODE"),
    1: ("SYS", "SOC", "PCIE"),
}
BY_WORD = {word: closeness for closeness, words in WORDS.items() for word in words}
"""As `nvidia-smi topo -m` and its relatives of other makers explain their words; others count as no link."""


def has_wish(pod: Pod) -> bool:
    """Any two GPUs of one node are as close as the node itself, which needs no matrix."""
    return pod.link not in (None, LinkClass.NODE)


def linked_groups(
    node: Node, free: Sequence[int], number: int, wish: LinkClass | None
) -> Iterator[tuple[int, ...]]:
    """Every group of that many free GPUs whose every pair is tied at least so, by position."""
    least = CLOSENESS.get(wish, 9) if wish is not None else 0
    links = node.topology.links if node.topology is not None else ()
    size = len(node.gpus)
    if len(links) != size or any(len(row) != size for row in links):
        return
    yield from _grow(_ties(links, least), tuple(free), (), number)


@lru_cache(maxsize=1024)
def _ties(links: tuple[tuple[str, ...], ...], least: int) -> tuple[frozenset[int], ...]:
    """By GPU: those that it is tied to closely enough, both ways."""
    size = range(len(links))
    return tuple(
        frozenset(
            b for b in size if a != b and min(_closeness(links[a][b]), _closeness(links[b][a])) >= least
        )
        for a in size
    )


def _closeness(code: str) -> int:
    word = code.strip().upper()
    return 4 if BONDED.fullmatch(word) else BY_WORD.get(word, 0)


def _grow(
    ties: Sequence[frozenset[int]], free: tuple[int, ...], group: tuple[int, ...], number: int
) -> Iterator[tuple[int, ...]]:
    if len(group) == number:
        yield group
        return
    for at, gpu in enumerate(free):
        if len(free) - at < number - len(group):
            return
        if all(gpu in ties[member] for member in group):
            yield from _grow(ties, free[at + 1 :], (*group, gpu), number)
