"""Which nodes the MIG page lists: by its filters, and without the long tail of nodes that are not cut."""

from __future__ import annotations

from collections.abc import Sequence

from apps.dashboard.reading.mig import MigNode, tell_untold
from apps.dashboard.reading.plain import visible

UNTOLD_MODEL = "Model not told"


def find_nodes(nodes: Sequence[MigNode], *, model: str, only: str, text: str) -> list[MigNode]:
    """only: one of ONLY. text: of the node's name, model, pool, profile, config or state."""
    wanted = text.strip().lower()
    return [
        one
        for one in nodes
        if (not model or (one.use.model is not None and one.use.model.name == model))
        and ONLY[only][1](one)
        and (not wanted or wanted in _haystack(one))
    ]


def _haystack(one: MigNode) -> str:
    node, change = one.node, one.change
    words = [node.name, node.model, node.pool, change.config, change.state, one.state.word, *one.use.offered]
    return visible(" ".join(words)).lower()


def _is_whole(one: MigNode) -> bool:
    return not (one.is_used or any(one.use.asked.values()))


def fold_whole(nodes: Sequence[MigNode]) -> tuple[list[MigNode], list[tuple[str, int, int]]]:
    """The nodes worth a row of their own, and (model, nodes, GPUs) for those of which nothing is cut."""
    whole = [one for one in nodes if _is_whole(one) and not one.stage_word and not tell_untold(one.use)]
    found: dict[str, list[MigNode]] = {}
    for one in whole:
        found.setdefault(one.use.model.name if one.use.model else UNTOLD_MODEL, []).append(one)
    names = {one.node.name for one in whole}
    rest = [one for one in nodes if one.node.name not in names]
    return rest, [(name, len(of), sum(len(one.use.gpus) for one in of)) for name, of in sorted(found.items())]


def _has_free(one: MigNode) -> bool:
    return bool(one.use.idle) or any(gpu.uncut for gpu in one.use.gpus)


ONLY = {
    "": ("All that can be cut", lambda one: True),
    "cut": ("In use by MIG", lambda one: one.is_used),
    "whole": ("Not cut at all", _is_whole),
    "free": ("With instances free or slices uncut", _has_free),
    "changing": ("Being changed, or stuck", lambda one: one.change.is_under_way or one.change.is_broken),
    "untold": ("Holders or layout not told", lambda one: bool(tell_untold(one.use))),
}
