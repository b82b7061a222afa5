"""Which layouts of a GPU are legal, which are full, and what still fits beside what is cut.

Exact: a layout is a set of (start slice, profile), small enough to list them all.
Not in here: which instances are in use, and by whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from apps.planner.mig.models import MigModel, Profile


class Cut(NamedTuple):
    """One MIG instance at its start slice."""

    start: int
    profile: str


Layout = tuple[Cut, ...]
"""Sorted by start slice."""
Counts = tuple[tuple[str, int], ...]
"""(profile, number), sorted by profile: a layout without its start slices."""


def counts_of(cuts: Iterable[Cut]) -> Counts:
    return tuple(sorted(Counter(cut.profile for cut in cuts).items()))


def why_illegal(model: MigModel, cuts: Iterable[Cut]) -> str:
    """One sentence why the driver would refuse this layout; "" if it is legal."""
    taken: dict[int, Cut] = {}
    numbers: Counter[str] = Counter()
    for cut in sorted(cuts):
        profile = model.by_name.get(cut.profile)
        if profile is None:
            return _why_no_profile(model, cut.profile)
        if cut.start not in profile.starts:
            starts = ", ".join(str(start) for start in profile.starts)
            return (
                f"{cut.profile} cannot start at memory slice {cut.start} of {model.name} (only at {starts})."
            )
        for at in range(cut.start, cut.start + profile.memory_slices):
            if at in taken:
                other = taken[at]
                return f"{cut.profile} at {cut.start} overlaps {other.profile} at {other.start}."
            taken[at] = cut
        numbers[cut.profile] += 1
    return why_too_many(model, numbers)


def why_too_many(model: MigModel, numbers: Mapping[str, int]) -> str:
    """What the numbers alone forbid, whatever the start slices; "" if nothing."""
    for name, number in numbers.items():
        profile = model.by_name.get(name)
        if profile is None:
            return _why_no_profile(model, name)
        if number > profile.most:
            return f"{model.name} takes at most {profile.most} x {name}, not {number}."
    media = sum(number for name, number in numbers.items() if model.by_name[name].media)
    if media > 1:
        return f"Only one instance of a GPU may have the media extensions, not {media}."
    return _why_engines_short(model, numbers) if model.shares_engines else ""


def _why_no_profile(model: MigModel, name: str) -> str:
    """The memory in a profile's name goes with the model's own: 1g.5gb of one is 1g.10gb of another."""
    alike = [one.name for one in model.profiles if one.name.partition(".")[0] == name.partition(".")[0]]
    has = f" It has {', '.join(alike)}." if alike else ""
    return f"{model.name} has no profile {name[:40]}.{has}"


def free_starts(model: MigModel, layout: Iterable[Cut], profile: str) -> tuple[int, ...]:
    """Start slices at which one more instance of the profile fits, as the GPU is cut now."""
    have = tuple(layout)
    return tuple(
        start
        for start in model.by_name[profile].starts
        if not why_illegal(model, (*have, Cut(start, profile)))
    )


def how_many_more(model: MigModel, layout: Iterable[Cut], profile: str) -> int:
    """How many more instances of the profile fit beside what is cut. Exact: equal lengths, left to right."""
    have = list(layout)
    number = 0
    for start in model.by_name[profile].starts:
        if not why_illegal(model, (*have, Cut(start, profile))):
            have.append(Cut(start, profile))
            number += 1
    return number


def uncut_slices(model: MigModel, layout: Iterable[Cut]) -> int:
    """Memory slices that no instance occupies."""
    return model.axis - sum(model.by_name[cut.profile].memory_slices for cut in layout)


@lru_cache(maxsize=256)
def list_layouts(model: MigModel, profiles: tuple[str, ...] | None = None) -> tuple[Layout, ...]:
    """Every legal layout out of these profiles (None: all), the empty one included."""
    chosen = [profile for profile in model.profiles if profiles is None or profile.name in profiles]
    found: list[Layout] = []
    _extend(model, chosen, 0, (), found)
    return tuple(sorted(found))


@lru_cache(maxsize=256)
def list_full_layouts(model: MigModel, profiles: tuple[str, ...] | None = None) -> tuple[Layout, ...]:
    """Legal layouts to which none of these profiles can be added anywhere."""
    names = tuple(model.by_name) if profiles is None else profiles
    return tuple(
        layout
        for layout in list_layouts(model, profiles)
        if not any(free_starts(model, layout, name) for name in names if name in model.by_name)
    )


def _extend(model: MigModel, chosen: list[Profile], begin: int, layout: Layout, found: list[Layout]) -> None:
    """Depth first by start slice, so that each set of instances is met once."""
    found.append(layout)
    for start in range(begin, model.axis):
        for profile in chosen:
            if start not in profile.starts or start + profile.memory_slices > model.axis:
                continue
            longer = (*layout, Cut(start, profile.name))
            if not why_too_many(model, Counter(cut.profile for cut in longer)):
                _extend(model, chosen, start + profile.memory_slices, longer, found)


def _why_engines_short(model: MigModel, numbers: Mapping[str, int]) -> str:
    """The media engines of a whole GPU are a pool; the widest profile has all of them."""
    words = {
        "decoders": "video decoders",
        "encoders": "video encoders",
        "jpeg": "JPEG engines",
        "optical_flow": "optical flow engines",
    }
    for field, word in words.items():
        have = max(getattr(profile.engines, field) or 0 for profile in model.profiles)
        want = sum(
            number * (getattr(model.by_name[name].engines, field) or 0) for name, number in numbers.items()
        )
        if want > have:
            return f"The instances want {want} {word}, {model.name} has {have}."
    return ""
