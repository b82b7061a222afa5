"""Nodes whose links are not those of the others of their kind: a card in another place, a switch that counts
otherwise, a firmware of its own. Jobs over several nodes run at the pace of the odd one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from apps.planner.inventory import Node

FEWEST_ALIKE = 2
Links = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
Kind = tuple[object, ...]


def find_odd_links(nodes: Iterable[Node]) -> dict[str, str]:
    """By node: one sentence. Compared are nodes of one pool and model with as many GPUs and network cards, by
    their whole tables; without a majority nobody is odd."""
    return find_odd((node.name, kind_of(node), links_of(node)) for node in nodes)


def find_odd(told: Iterable[tuple[str, Kind | None, Links]]) -> dict[str, str]:
    """The same for what was taken from nodes before: (name, kind or None, links)."""
    groups: dict[Kind, list[tuple[str, Links]]] = defaultdict(list)
    for name, kind, links in told:
        if kind is not None:
            groups[kind].append((name, links))
    found: dict[str, str] = {}
    for kind, alike in groups.items():
        counts = Counter(links for _, links in alike)
        usual, number = counts.most_common(1)[0]
        if number == len(alike) or number < FEWEST_ALIKE or number * 2 <= len(alike):
            continue
        found |= {name: _sentence(kind, links, usual, number) for name, links in alike if links != usual}
    return found


def kind_of(node: Node) -> Kind | None:
    """Equal for nodes whose links should be equal; None where they are not known whole."""
    told = node.topology
    if told is None or not told.complete or not told.links:
        return None
    return node.model, node.pool, len(told.links), len(told.nic_links)


def links_of(node: Node) -> Links:
    return (node.topology.links, node.topology.nic_links) if node.topology is not None else ((), ())


def _sentence(kind: Kind, links: Links, usual: Links, number: int) -> str:
    what = "between its GPUs" if links[0] != usual[0] else "to its network cards"
    model = f" {kind[0]}" if kind[0] else ""
    return f"its links {what} are not those of {number} other{model} nodes of its pool"
