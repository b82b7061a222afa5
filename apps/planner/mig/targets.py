"""New layouts worth considering for a GPU: full ones, without those that another one beats."""

from __future__ import annotations

from functools import lru_cache

from apps.planner.mig.layouts import Counts, counts_of, list_full_layouts, uncut_slices
from apps.planner.mig.models import MigModel

Target = tuple[Counts, int]
"""(instances, memory slices left uncut)."""


def list_targets(model: MigModel, wanted: frozenset[str]) -> tuple[Target, ...]:
    """wanted: profiles that anybody asks for. No legal layout serves them better than one of these.

    Variants ("+me", "+gfx", "-me") are cut only where they are asked for. Never an empty layout:
    a device plugin fails on a GPU in MIG mode without instances.
    """
    plain = {name for name in model.by_name if "+" not in name and "-" not in name}
    names = tuple(name for name in model.by_name if name in plain or name in wanted)
    return _list_targets(model, names, frozenset(names) & wanted)


@lru_cache(maxsize=256)
def _list_targets(model: MigModel, names: tuple[str, ...], wanted: frozenset[str]) -> tuple[Target, ...]:
    least: dict[Counts, int] = {}
    for layout in list_full_layouts(model, names):
        counts = counts_of(layout)
        least[counts] = min(least.get(counts, model.axis), uncut_slices(model, layout))
    ordered = sorted(least.items(), key=lambda one: (one[1], -_spread(one[0]), one[0]))
    kept: list[Target] = []
    for counts, uncut in ordered:
        if not any(_beats(other, (counts, uncut), wanted) for other in kept):
            kept.append((counts, uncut))
    return tuple(kept)


def _beats(one: Target, other: Target, wanted: frozenset[str]) -> bool:
    """At least as many of each wanted profile, and no more left uncut."""
    have = dict(one[0])
    return one[1] <= other[1] and all(
        have.get(name, 0) >= number for name, number in other[0] if name in wanted
    )


def _spread(counts: Counts) -> int:
    """Number of different profiles: what is left over suits more pods."""
    return len(counts)
