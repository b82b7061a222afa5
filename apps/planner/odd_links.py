"""Nodes whose links are not those of the others of their kind: a card in another place, a switch that counts
otherwise, a firmware of its own. Jobs over several nodes run at the pace of the odd one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from apps.planner.inventory import Node

FEWEST_ALIKE = 2
Links = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]


def find_odd_links(nodes: Iterable[Node]) -> dict[str, str]:
    """By node: one sentence. Compared are nodes of one model with as many GPUs and network cards, by their
    whole tables; without a majority nobody is odd."""
    groups: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.topology is not None and node.topology.complete and node.topology.links:
            size = len(node.topology.links), len(node.topology.nics) or len(node.topology.nic_links)
            groups[node.model, size].append(node)
    found: dict[str, str] = {}
    for alike in groups.values():
        counts = Counter(map(_links_of, alike))
        usual, number = counts.most_common(1)[0]
        if number < FEWEST_ALIKE or number * 2 <= len(alike):
            continue
        for node in alike:
            if _links_of(node) != usual:
                found[node.name] = _sentence(node, usual, number)
    return found


def _links_of(node: Node) -> Links:
    assert node.topology is not None
    return node.topology.links, node.topology.nic_links


def _sentence(node: Node, usual: Links, number: int) -> str:
    links, nic_links = _links_of(node)
    what = "between its GPUs" if links != usual[0] else "of its network cards"
    model = f" {node.model}" if node.model else ""
    return f"the links {what} are not those of {number} other{model} nodes"
