"""Hypothetical changes of the what-if page: as the address holds them, and their effect in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from apps.dashboard.reading.words import plural
from apps.planner.snapshot import Snapshot
from apps.planner.whatif import LINKS
from apps.planner.whatif_changes import Change
from apps.planner.whatif_effect import Effect, Standing

KINDS = {
    "add": "add nodes like",
    "remove": "remove node",
    "cordon": "cordon node",
    "layout": "cut GPUs of node",
    "quota": "lift the quota of queue",
}
NEW = ("new_what", "new_name", "new_number", "new_gpu", "new_layout")
"""Fields by which one more change is told; they never stay in the address."""
MOST_OFFERED = 200
MOST_NAMED = 4


def write_change(told: Mapping[str, str]) -> str:
    """One more change as its text, from the fields of the form; "" where none is told."""
    what, number, name, gpu, layout = (
        told.get(key, "").strip() for key in ("new_what", "new_number", "new_name", "new_gpu", "new_layout")
    )
    if what not in KINDS or not name:
        return ""
    if what == "add":
        return f"add:{number or 1}:{name}"
    if what == "layout":
        return f"layout:{name}:{gpu or 'all'}:{layout.replace(' ', '') or 'whole'}"
    return f"{what}:{name}"


def list_offered(snapshot: Snapshot) -> tuple[str, ...]:
    """Names for the form to choose from: queues with quota, and nodes."""
    return (*sorted(snapshot.queues)[:MOST_OFFERED], *sorted(snapshot.nodes)[:MOST_OFFERED])


@dataclass(frozen=True, slots=True)
class Tried:
    """One change of the address. without: the query of the address without it."""

    text: str
    words: str
    without: str


def list_tried(changes: Sequence[Change], query: QueryDict) -> tuple[Tried, ...]:
    tried = []
    for at, change in enumerate(changes):
        rest = query.copy()
        rest.setlist("change", [one.text for other, one in enumerate(changes) if other != at])
        tried.append(Tried(change.text, change.words, rest.urlencode()))
    return tuple(tried)


@dataclass(frozen=True, slots=True)
class Line:
    """One measure on both sides. better: None where it is the same, or neither good nor bad."""

    name: str
    before: str
    after: str
    better: bool | None = None


STARTS = "Workloads that could start now"


def draw_effect(effect: Effect) -> tuple[Line, ...]:
    one, two, removed = effect.before, effect.after, set(effect.new_waiting)
    return (
        Line("Nodes", f"{one.nodes:,}", f"{two.nodes:,}"),
        Line("GPUs, idle of all", _idle(one), _idle(two)),
        _line(STARTS, one, two, lambda side: len(set(side.starts) - removed), _starts)
        if not effect.was_late
        else Line(STARTS, f"at least {_starts(one)}", f"at least {_starts(two)}"),
        _line(
            "Held back by quota", one, two, lambda side: -side.held_back, lambda side: f"{side.held_back:,}"
        ),
        _line("Free nodes", one, two, lambda side: side.free_nodes),
        *(_blocks(one, two, size) for size in one.free_blocks),
        _line("Largest gang", one, two, lambda side: side.gang_pods * side.gang_gpus, _gang),
        _line(
            "Fragmentation", one, two, lambda side: -side.fragmentation_gpus,
            lambda side: f"{side.fragmentation_gpus:.1f} GPUs, {side.ratio * 100:.0f} % of what is idle",
        ),
    )  # fmt: skip


def say_effect(effect: Effect) -> str:
    """ "2 more of the 5 workloads that wait could start: a and b."; what is lost is said too. A search
    that was cut short proves neither: whom it did not come to may start on both sides."""
    parts = []
    more = [key for key in effect.new_starts if key not in effect.new_waiting]
    if effect.was_late:
        parts.append("What could start was not found out in time; more might than is told.")
    elif more:
        parts.append(f"{plural(len(more), 'workload')} more could start now: {_named(more)}.")
    if effect.lost_starts and not effect.was_late:
        parts.append(f"{_named(effect.lost_starts)} could no longer start.")
    if effect.new_waiting:
        pods = plural(len(effect.new_waiting), "workload")
        again = len(effect.new_starts) - len(more)
        at_once = f"; {again} of them could start elsewhere at once" if again else ""
        parts.append(f"{pods} of the removed nodes would wait again: {_named(effect.new_waiting)}{at_once}.")
    return " ".join(parts) or "No other workload of the queue could start than now."


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    return ", ".join(keys[:MOST_NAMED]) + more


def _line(
    name: str,
    one: Standing,
    two: Standing,
    worth: Callable[[Standing], float],
    say: Callable[[Standing], str] | None = None,
) -> Line:
    """worth: more is better."""
    was, now = worth(one), worth(two)
    said = (say(one), say(two)) if say else (f"{was:,}", f"{now:,}")
    return Line(name, *said, None if was == now else now > was)


def _blocks(one: Standing, two: Standing, size: str) -> Line:
    return _line(f"Free blocks of {size}", one, two, lambda side: side.free_blocks.get(size, 0))


def _idle(side: Standing) -> str:
    return f"{side.idle_gpus:,.1f} of {side.gpus:,.0f}"


def _starts(side: Standing) -> str:
    return f"{len(side.starts)} of {side.waiting}"


def _gang(side: Standing) -> str:
    if not side.gang_pods:
        return "none"
    link = LINKS.get(side.gang_link, "")
    return f"{plural(side.gang_pods, 'pod')} of {plural(side.gang_gpus, 'GPU')}{f', {link}' if link else ''}"
