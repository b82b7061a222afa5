"""Start slices for a wanted number of instances, from scratch or beside instances in use.

Tools that cut a GPU (mig-parted, the driver's `-cgi`) are told profiles and numbers; the driver
picks the start slices. What is found here shows that a legal choice exists; it is the driver's own
only where no other exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from apps.planner.mig.layouts import Cut, Layout, how_many_more, why_illegal, why_too_many
from apps.planner.mig.models import MigModel


def place_counts(model: MigModel, counts: Mapping[str, int], beside: Iterable[Cut] = ()) -> Layout | None:
    """A legal layout with these instances more than `beside`, or None if there is none.

    Among the legal ones, the one that leaves most room for the model's other profiles; then the
    lowest start slices, longest profile first.
    """
    wanted = [(name, number) for name, number in counts.items() if number > 0]
    if any(name not in model.by_name for name, _ in wanted):
        return None
    wanted.sort(key=lambda one: (-model.by_name[one[0]].memory_slices, one[0]))
    fixed = tuple(sorted(beside))
    if why_illegal(model, fixed):
        return None
    found: list[Layout] = []
    _place(model, wanted, fixed, found)
    return min(found, key=lambda layout: (-_room_left(model, layout), layout), default=None)


def why_unplaceable(model: MigModel, counts: Mapping[str, int]) -> str:
    """One sentence why no layout has these instances; "" if one does."""
    wanted = {name: number for name, number in counts.items() if number}
    reason = why_too_many(model, wanted)
    if reason or place_counts(model, wanted) is not None:
        return reason
    slices = sum(number * model.by_name[name].memory_slices for name, number in wanted.items())
    words = " + ".join(f"{number} x {name}" for name, number in sorted(wanted.items()))
    if slices > model.axis:
        return f"{words} need {slices} memory slices, {model.name} has {model.axis}."
    return f"{words} fit no set of start slices of {model.name} (memory slices, not compute slices, decide)."


def reach_layout(model: MigModel, in_use: Iterable[Cut], wanted: Mapping[str, int]) -> Layout | None:
    """The wanted numbers as a layout in which every instance in use stays where it is, or None.

    Everything that is not in use may be destroyed and cut anew.
    """
    fixed = tuple(sorted(in_use))
    missing = dict(wanted)
    for cut in fixed:
        missing[cut.profile] = missing.get(cut.profile, 0) - 1
    if any(number < 0 for number in missing.values()):
        return None
    return place_counts(model, missing, fixed)


def _place(model: MigModel, wanted: list[tuple[str, int]], layout: Layout, found: list[Layout]) -> None:
    if not wanted:
        found.append(layout)
        return
    name, number = wanted[0]
    for starts in combinations(model.by_name[name].starts, number):
        longer = tuple(sorted((*layout, *(Cut(start, name) for start in starts))))
        if not why_illegal(model, longer):
            _place(model, wanted[1:], longer, found)


def _room_left(model: MigModel, layout: Layout) -> int:
    return sum(
        how_many_more(model, layout, profile.name) * profile.memory_slices
        for profile in model.profiles
        if not profile.media
    )
