"""From the layout that a GPU has to a wanted one: whether the way exists while some instances are in use.

An instance cannot be moved or resized: it is destroyed, which nobody may use it for, and another is cut.
Tools that clear a GPU first (mig-parted) need all of it idle; the driver itself cuts beside what is in use.
Not in here: which layouts are legal (layouts), who uses what (use), what is worth it (choosing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from apps.planner.inventory import Node, Pod
from apps.planner.mig.layouts import Cut, Layout, how_many_more, why_illegal
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.placing import place_counts, reach_layout, why_unplaceable
from apps.planner.mig.use import plain_profiles, read_use

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Way:
    """why: one sentence why there is no way, "" if there is. layout: the wanted one, instances in use at
    their places. destroyed, created: instances that go and come. clears: whether a tool that clears the
    GPU first can take this way, because nothing on it is in use (or nothing changes)."""

    why: str = ""
    layout: Layout = ()
    destroyed: tuple[Cut, ...] = ()
    created: tuple[Cut, ...] = ()
    clears: bool = False

    @property
    def exists(self) -> bool:
        return not self.why


def find_way(
    model: MigModel, present: Iterable[Cut], in_use: Iterable[Cut], wanted: Mapping[str, int]
) -> Way:
    """present: all instances of the GPU. in_use: those that must stay; of the others as many stay as can."""
    have, held = tuple(sorted(present)), tuple(sorted(in_use))
    why = why_illegal(model, have)
    if why:
        return Way(f"How the GPU is cut now is not what the table of {model.name} allows: {why}")
    why = why_unplaceable(model, wanted)
    if why:
        return Way(why)
    layout = _keep_most(model, have, held, wanted)
    if layout is None:
        return Way(_why_no_way(model, held, wanted))
    gone = Counter(have) - Counter(layout)
    come = Counter(layout) - Counter(have)
    return Way("", layout, tuple(sorted(gone)), tuple(sorted(come)), clears=not held or not (gone or come))


def what_fits(model: MigModel, layout: Iterable[Cut]) -> dict[str, int]:
    """How many more of each plain profile fit beside what is cut, each profile alone."""
    have = tuple(layout)
    return {name: how_many_more(model, have, name) for name in plain_profiles(model)}


def moves_that_make_room(
    model: MigModel, layout: Iterable[Cut], profile: str
) -> tuple[tuple[Cut, tuple[int, ...]], ...]:
    """Single instances that, cut anew at another start slice, leave room for more of the profile: (which,
    where it may start). Those that gain most only."""
    have = tuple(sorted(layout))
    before = how_many_more(model, have, profile)
    found: dict[tuple[int, Cut], list[int]] = {}
    for cut in have:
        rest = tuple(one for one in have if one is not cut)
        for start in model.by_name[cut.profile].starts:
            moved = (*rest, Cut(start, cut.profile))
            if start == cut.start or why_illegal(model, moved):
                continue
            gain = how_many_more(model, moved, profile) - before
            if gain > 0:
                found.setdefault((gain, cut), []).append(start)
    best = max((gain for gain, _ in found), default=0)
    return tuple((cut, tuple(starts)) for (gain, cut), starts in found.items() if gain == best)


def why_not_now(node: Node, pods: Iterable[Pod]) -> str:
    """Why no GPU of the node can be cleared now: who is on its instances; "" if nobody is.

    pods: those that hold resources on the node.
    """
    guests = [pod for pod in pods if not pod.hold]
    names = {pod.uid: pod.key for pod in guests}
    use = read_use(node, guests)
    held = {
        (one.profile, names[one.pod_uid]) for gpu in use.gpus for one in gpu.instances if one.pod_uid in names
    }
    told = {name for _, name in held}
    held |= {(profile, pod.key) for pod in guests if pod.key not in told for profile in asked_profiles(pod)}
    if not held:
        return ""
    words = [f"{profile} instance in use by {name}" for profile, name in sorted(held)]
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return f"{', '.join(words[:MOST_NAMED])}{more}."


def _keep_most(model: MigModel, have: Layout, held: Layout, wanted: Mapping[str, int]) -> Layout | None:
    idle = sorted((Counter(have) - Counter(held)).elements())
    for stay in _subsets(idle):
        layout = reach_layout(model, (*held, *stay), wanted)
        if layout is not None:
            return layout
    return None


def _subsets(idle: list[Cut]) -> Iterator[tuple[Cut, ...]]:
    """The larger ones first."""
    for number in range(len(idle), -1, -1):
        yield from combinations(idle, number)


def _why_no_way(model: MigModel, held: Layout, wanted: Mapping[str, int]) -> str:
    numbers = Counter(cut.profile for cut in held)
    for profile, number in sorted(numbers.items()):
        if number > wanted.get(profile, 0):
            return f"{number} x {profile} are in use, and the wanted layout has {wanted.get(profile, 0)}."
    words = ", ".join(f"{cut.profile} at {cut.start}" for cut in held)
    blocking = [cut for cut in held if _fits_without(model, held, cut, wanted)]
    hint = (
        f" {blocking[0].profile} at {blocking[0].start} would have to be cut anew elsewhere."
        if blocking
        else ""
    )
    return f"The wanted layout is legal, but not beside what is in use ({words}).{hint}"


def _fits_without(model: MigModel, held: Layout, cut: Cut, wanted: Mapping[str, int]) -> bool:
    rest = tuple(one for one in held if one is not cut)
    missing = Counter(wanted) - Counter(one.profile for one in rest)
    return place_counts(model, missing, rest) is not None
