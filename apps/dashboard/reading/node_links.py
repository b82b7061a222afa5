"""What the page of one node says beside its link matrix: its source, what is missing, speeds, groups."""

from __future__ import annotations

from dataclasses import dataclass

from apps.dashboard.reading.words import plural, spans
from apps.planner.bandwidth import bandwidth_of
from apps.planner.inventory import LinkClass, Node, Topology
from apps.planner.link_groups import Groups, by_class, by_value
from apps.planner.topology import RANK, link_class

SOURCES = {
    "nvml": "NVML",
    "text": "text of a tool",
    "hami": "HAMi's scores",
    "koordinator": "Koordinator's Device",
    "dra": "ResourceSlices (DRA)",
}
MOST_CODES = 8
PLACES_ONLY = ("koordinator", "dra")
CLASS_WORDS = {
    LinkClass.NVLINK: "Direct links",
    LinkClass.PCIE_SWITCH: "PCIe switch",
    LinkClass.NUMA: "NUMA node",
}


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """gap: what is missing, "" if nothing is. speeds: (code, rate). groups: (what, members), in words."""

    source: str
    gap: str
    speeds: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, str], ...]


def tell_link_facts(node: Node, topology: Topology) -> LinkFacts:
    return LinkFacts(
        source=SOURCES.get(topology.source, topology.source) or "not named",
        gap=_gap(topology),
        speeds=_speeds(node, topology),
        groups=tuple(_groups(node, topology)),
    )


def _gap(topology: Topology) -> str:
    unknown = sum(
        1 for a, row in enumerate(topology.links) for b in range(a) if not (row[b] and topology.links[b][a])
    )
    pairs = (
        f"{plural(unknown, 'pair')} of GPUs {'has' if unknown == 1 else 'have'} an unknown link"
        if unknown
        else ""
    )
    if topology.source in PLACES_ONLY and not topology.complete:
        return (
            f"This source tells where GPUs sit, not their direct links: {pairs or 'nearer links may exist'}."
        )
    if topology.complete:
        return f"{pairs[:1].upper()}{pairs[1:]}." if pairs else ""
    return f"The table is cut or damaged: {pairs or 'a part of it is missing'}. Unknown is not “no link”."


def _speeds(node: Node, topology: Topology) -> tuple[tuple[str, str], ...]:
    told = {code for a, row in enumerate(topology.links) for b, code in enumerate(row) if a != b and code}
    nearest_first = sorted(told, key=lambda code: (-RANK[link_class(code)], code))
    rates = ((code, bandwidth_of(code, node.model)) for code in nearest_first[:MOST_CODES])
    return tuple((code, rate.stated) for code, rate in rates if rate is not None)


def _groups(node: Node, topology: Topology) -> list[tuple[str, str]]:
    """Only those that part the node: a group of all of its GPUs says nothing that the matrix does not."""
    found = by_class(topology.links)
    rows = [(words, found.get(kind, ())) for kind, words in CLASS_WORDS.items()]
    numas, switches = (
        by_value([gpu.numa for gpu in node.gpus]),
        by_value([gpu.pcie_switch for gpu in node.gpus]),
    )
    if switches or rows[1][1] == rows[0][1]:
        rows[1] = ("PCIe switch", switches)
    rows[2] = ("NUMA node", numas or rows[2][1])
    return [(words, _members(node, groups)) for words, groups in rows if len(groups) > 1]


def _members(node: Node, groups: Groups) -> str:
    return "  ·  ".join(spans(node.gpus[at].index for at in group) for group in groups)
