"""What the placement table of a GPU model allows: its profiles, and every full layout, drawn."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from apps.dashboard.drawings.mig import draw_legal
from apps.planner.mig.catalogue import MODELS, warn_about
from apps.planner.mig.layouts import Layout, list_full_layouts, list_layouts
from apps.planner.mig.models import MigModel, Profile
from apps.planner.mig.use import plain_profiles


@dataclass(frozen=True, slots=True)
class LegalProfile:
    """variants: of the same size with other engines ("+me")."""

    profile: Profile
    starts: str
    variants: str


@dataclass(frozen=True, slots=True)
class LegalLayouts:
    """shown: full layouts (nothing can be added), as (picture, words), without the wide variants of the
    smallest profile, which would only repeat them. full: how many there are with those, `wide` by name.
    legal: how many layouts are legal at all. warning: what is not certain about the table."""

    model: MigModel
    profiles: tuple[LegalProfile, ...]
    shown: tuple[tuple[str, str], ...]
    full: int
    wide: tuple[str, ...]
    legal: int
    warning: str


@lru_cache(maxsize=32)
def read_legal(name: str) -> LegalLayouts:
    """name: of a model in the catalogue."""
    model = MODELS[name]
    plain = plain_profiles(model)
    least = min(model.by_name[one].memory_slices for one in plain)
    wide = tuple(one for one in plain if _is_wide(model.by_name[one], least))
    base = tuple(one for one in plain if one not in wide)
    ordered = sorted(
        list_full_layouts(model, base), key=lambda layout: (len(layout), [cut.start for cut in layout])
    )
    return LegalLayouts(
        model=model,
        profiles=tuple(_profile(model, one) for one in plain),
        shown=tuple((draw_legal(model, layout), _words(layout)) for layout in ordered),
        full=len(list_full_layouts(model, plain)),
        wide=wide,
        legal=len(list_layouts(model, plain)) - 1,
        warning=warn_about(model),
    )


def _is_wide(profile: Profile, least: int) -> bool:
    """One compute slice with more memory than it needs."""
    return profile.compute_slices == 1 and profile.memory_slices > least


def _profile(model: MigModel, name: str) -> LegalProfile:
    profile = model.by_name[name]
    variants = [other for other in model.by_name if other.startswith((f"{name}+", f"{name}-"))]
    return LegalProfile(profile, ", ".join(map(str, profile.starts)), ", ".join(variants))


def _words(layout: Layout) -> str:
    counts = Counter(cut.profile for cut in layout)
    return " + ".join(f"{number} × {name}" if number > 1 else name for name, number in counts.items())
