"""Start slices for a wanted number of instances, from scratch or beside instances in use.

Tools that cut a GPU (mig-parted, the driver's `-cgi`) are told profiles and numbers; the driver
picks the start slices. What is found here shows that a legal choice exists; it is the driver's own
only where no other exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from apps.planner.mig.layouts import Cut, Layout, how_many_more, why_illegal, why_too_many
from apps.planner.mig.models import MigModel


def place_counts(model: MigModel, counts: Mapping[str, int], beside: Iterable[Cut] = ()) -> Layout | None:
    """A legal layout with these instances more than `beside`, or None if there is none.

    Among the legal ones, the one that leaves most room for the model's other profiles; then the
    lowest start slices, longest profile first.
    """
    if any(number > 0 and name not in model.by_name for name, number in counts.items()):
        return None
    fixed = tuple(sorted(beside))
    if why_illegal(model, fixed):
        return None
    found = _placements(model, _longest_first(model, counts), fixed)
    return min(found, key=lambda layout: (-_room_left(model, layout), layout), default=None)


def why_unplaceable(model: MigModel, counts: Mapping[str, int]) -> str:
    """One sentence why no layout has these instances; "" if one does."""
    wanted = {name: number for name, number in counts.items() if number}
    reason = why_too_many(model, wanted)
    if reason or any(True for _ in _placements(model, _longest_first(model, wanted), ())):
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


def _placements(model: MigModel, wanted: Sequence[tuple[str, int]], layout: Layout) -> Iterator[Layout]:
    if not wanted:
        yield layout
        return
    name, number = wanted[0]
    for starts in combinations(model.by_name[name].starts, number):
        longer = tuple(sorted((*layout, *(Cut(start, name) for start in starts))))
        if not why_illegal(model, longer):
            yield from _placements(model, wanted[1:], longer)


def _longest_first(model: MigModel, counts: Mapping[str, int]) -> list[tuple[str, int]]:
    wanted = [(name, number) for name, number in counts.items() if number > 0]
    return sorted(wanted, key=lambda one: (-model.by_name[one[0]].memory_slices, one[0]))


def _room_left(model: MigModel, layout: Layout) -> int:
    return sum(
        how_many_more(model, layout, profile.name) * profile.memory_slices
        for profile in model.profiles
        if not profile.media
    )
