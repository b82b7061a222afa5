"""Tells on each node whose links are not those of its kind. What was compared is not compared again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.planner.inventory import Node, Topology
from apps.planner.odd_links import Kind, Links, find_odd, kind_of, links_of


@dataclass(frozen=True, slots=True)
class _Seen:
    """digest stands for the links, so that thousands of tables are not compared each time."""

    topology: Topology | None
    kind: Kind | None
    digest: tuple[int, int]


class OddNodes:
    """Remembers the nodes of its last marking. Not safe to share between threads."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._marked: dict[str, tuple[Node, str, Node]] = {}

    def mark(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        """By name, with a warning on those that are odd."""
        seen = {name: self._see(name, node) for name, node in nodes.items() if node.topology is not None}
        odd = find_odd((name, one.kind, links_of(nodes[name])) for name, one in self._suspects(seen).items())
        marked: dict[str, tuple[Node, str, Node]] = {}
        found = dict(nodes)
        for name, why in odd.items():
            known = self._marked.get(name)
            if known is None or known[0] is not nodes[name] or known[1] != why:
                known = (nodes[name], why, _told(nodes[name], why))
            marked[name] = known
            found[name] = known[2]
        self._seen, self._marked = seen, marked
        return found

    def _see(self, name: str, node: Node) -> _Seen:
        known = self._seen.get(name)
        kind = kind_of(node)
        if known is not None and known.topology is node.topology:
            return known if known.kind == kind else replace(known, kind=kind)
        links: Links = links_of(node)
        return _Seen(node.topology, kind, (hash(links[0]), hash(links[1])))

    def _suspects(self, seen: Mapping[str, _Seen]) -> dict[str, _Seen]:
        """Nodes of the kinds in which more than one table stands."""
        tables: dict[Kind, set[tuple[int, int]]] = {}
        for one in seen.values():
            if one.kind is not None:
                tables.setdefault(one.kind, set()).add(one.digest)
        return {name: one for name, one in seen.items() if one.kind is not None and len(tables[one.kind]) > 1}


def _told(node: Node, why: str) -> Node:
    return replace(node, warnings=(*node.warnings, why))
