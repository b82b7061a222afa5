"""Which GPUs of a node belong together: by link class, by PCIe switch, by NUMA node.

A group of a link class is connected: each of its GPUs reaches each other over links of that class or better,
not always directly. Which N of them are tied directly is `topology.best_group`'s answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.planner.inventory import LinkClass
from apps.planner.topology import RANK, link_class

Groups = tuple[tuple[int, ...], ...]
TOLD = (LinkClass.NVLINK, LinkClass.PCIE_SWITCH, LinkClass.NUMA, LinkClass.NODE)


def connected(links: Sequence[Sequence[str]], wanted: LinkClass) -> Groups:
    """Every GPU in one group, alone where no link of the class is known. A pair counts by its worse
    direction."""
    size, least = len(links), RANK[wanted]
    ranks = [[RANK[link_class(code)] for code in row] for row in links]
    seen: set[int] = set()
    groups = []
    for start in range(size):
        if start in seen:
            continue
        group, waiting = [], [start]
        seen.add(start)
        while waiting:
            one = waiting.pop()
            group.append(one)
            for other in range(size):
                if other not in seen and min(ranks[one][other], ranks[other][one]) >= least:
                    seen.add(other)
                    waiting.append(other)
        groups.append(tuple(sorted(group)))
    return tuple(groups)


def closest_class(links: Sequence[Sequence[str]]) -> LinkClass:
    """The best class that any two GPUs are tied by; UNKNOWN if no link is known."""
    ranks = [
        RANK[link_class(code)] for at, row in enumerate(links) for to, code in enumerate(row) if at != to
    ]
    best = max(ranks, default=0)
    return next(kind for kind, rank in RANK.items() if rank == best)


def by_class(links: Sequence[Sequence[str]]) -> Mapping[LinkClass, Groups]:
    """The groups of each class that ties anything at all."""
    found = {kind: connected(links, kind) for kind in TOLD}
    return {kind: groups for kind, groups in found.items() if any(len(group) > 1 for group in groups)}


def by_value(values: Sequence[object]) -> Groups:
    """GPUs with the same value (NUMA node, switch, CPU list), in the order of the values; None is no
    group."""
    found: dict[object, list[int]] = {}
    for at, value in enumerate(values):
        if value is not None:
            found.setdefault(value, []).append(at)
    ordered = sorted(found, key=lambda value: (isinstance(value, str), _natural(value)))
    return tuple(tuple(found[value]) for value in ordered)


def _natural(value: object) -> tuple[int, str]:
    digits = str(value).partition("-")[0].partition(",")[0]
    return (int(digits) if digits.isdecimal() and len(digits) < 10 else 0, str(value))
