"""What still fits, in words: linked groups, GPU memory, MIG, what of the queue could start, what is wanted.

Each under its own name, from the newest point of a trend; no figure of these is part of FGD's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.dashboard.reading.nodes import LINK_WORDS
from apps.dashboard.reading.trend import Trend
from apps.dashboard.reading.words import listing, plural
from apps.fragmentation.queries import DUMP, RUNNING
from apps.fragmentation.trends import TrendPoint
from apps.planner.inventory import LinkClass

GROUP_SIZES = ("2", "4", "8")
MOST_SHAPES = 6


@dataclass(frozen=True, slots=True)
class GroupLine:
    """tie: how closely the GPUs of a group are tied. counts: groups of 2, 4 and 8."""

    tie: str
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class QueueLine:
    workload: str
    shape: str
    waiting: int
    startable: str


@dataclass(frozen=True, slots=True)
class Fits:
    """note: what of the groups is not known. lines: sentences about memory, MIG, and what is wanted."""

    groups: Sequence[GroupLine]
    note: str
    queue: Sequence[QueueLine]
    more: int
    lines: Sequence[str]
    sizes: Sequence[str] = GROUP_SIZES


def tell_fits(trend: Trend) -> Fits | None:
    """None where nothing was measured, or by a report that is older than these measures."""
    last = trend.last
    if last is None or not last.link_groups:
        return None
    return Fits(
        groups=[
            GroupLine(word, [last.link_groups[link].get(size, 0) for size in GROUP_SIZES])
            for link, word in LINK_WORDS.items()
            if link in last.link_groups
        ],
        note=_tell_unknown(last.links_unknown_nodes),
        queue=[_queue_line(shape) for shape in last.startable[:MOST_SHAPES]],
        more=max(len(last.startable) - MOST_SHAPES, 0),
        lines=[*_tell_memory(last.gpu_memory), *_tell_mig(last.mig), *_tell_wanted(last)],
    )


def _tell_unknown(nodes: int) -> str:
    if not nodes:
        return ""
    return f"{plural(nodes, 'node')} with free GPUs {'does' if nodes == 1 else 'do'} not tell their links."


def _queue_line(shape: Mapping[str, Any]) -> QueueLine:
    count = f"at most {shape['startable_pods']}" if shape["at_most"] else str(shape["startable_pods"])
    return QueueLine(shape["workload"], _shape_words(shape), shape["waiting_pods"], count)


def _shape_words(shape: Mapping[str, Any]) -> str:
    if shape["profiles"]:
        return listing([f"{number} × {profile}" for profile, number in shape["profiles"].items()])
    if not shape["gpus_per_pod"]:
        return "a share"
    link = f", {LINK_WORDS[LinkClass(shape['link'])]}" if shape["link"] else ""
    if shape["memory_mib"] is not None:
        return f"{shape['gpus_per_pod']} × {_gib(shape['memory_mib'])}"
    if shape["milli"] < 1000:
        return f"{shape['gpus_per_pod']} × {_part(shape['milli'])}"
    return f"{plural(shape['gpus_per_pod'], 'GPU')}{link}"


def _part(milli: int) -> str:
    """ "0.25 GPU"."""
    return f"{milli / 1000:g} GPU"


def _gib(mib: int) -> str:
    return f"{mib / 1024:,.4g} GiB"


def _tell_memory(memory: Mapping[str, Any] | None) -> list[str]:
    if memory is None:
        return []
    known = memory["whole_mib"] or memory["shared_mib"]
    found = []
    if known:
        crumbs = memory["crumbs_mib"]
        small = f", {_gib(crumbs)} of it too little for any wanted share" if crumbs else ""
        found.append(
            f"GPU memory left: {_gib(memory['whole_mib'])} on free GPUs, {_gib(memory['shared_mib'])} on "
            f"shared ones{small}."
        )
    shares = [f"{share['fit']:,} × {_share_words(share)}" for share in memory["shares"]]
    if shares:
        found.append(f"Shares that fit, each size alone: {listing(shares, most=8)}.")
    return found


def _share_words(share: Mapping[str, Any]) -> str:
    size = _part(share["milli"]) if share["memory_mib"] is None else _gib(share["memory_mib"])
    return size if share["gpus"] == 1 else f"({share['gpus']} × {size})"


def _tell_mig(mig: Mapping[str, Any] | None) -> list[str]:
    if mig is None:
        return []
    more = [f"{number} × {profile}" for profile, number in mig["more_fit"].items() if number]
    return [
        f"MIG: {mig['uncut_memory_slices']} of {mig['memory_slices']} memory slices are uncut; as they are "
        f"cut, each profile alone, {listing(more, most=8) if more else 'no more instances'} would fit."
    ]


def _tell_wanted(point: TrendPoint) -> list[str]:
    wanted = point.wanted
    if wanted is None:
        return []
    if wanted["basis"] == DUMP:
        return ["Wanted: what the pods of the dump ask for."]
    if wanted["basis"] == RUNNING:
        return [f"Nobody asked for a GPU in {wanted['window_hours']:g} h, so what runs counts as wanted."]
    longer = wanted["pending_longer"]
    waits = (
        f" and {plural(longer, 'pod')} that {'waits' if longer == 1 else 'wait'} for longer" if longer else ""
    )
    return [f"Wanted: {plural(wanted['requests'], 'pod')} asked for in {wanted['window_hours']:g} h{waits}."]
