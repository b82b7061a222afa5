"""Queues with quota as bars: quota, used, borrowed, each with its number beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from apps.dashboard.reading.words import plural
from apps.planner.queue_states import PartState, QueueState
from apps.planner.quota_words import tell_amount, unit_of

WIDTH = 300.0
MOST_BARS = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """One resource of one flavor of a queue. Lengths are in the drawing's units, as text; quota_at: where the
    quota's line stands, "" without a bound. label: the whole of it in words."""

    name: str
    about: str
    unit: str
    background: str
    used: str
    borrowed_at: str
    borrowed: str
    quota_at: str
    used_words: str
    beyond_words: str
    label: str
    waiting: str
    stopped: str


@dataclass(frozen=True, slots=True)
class Quotas:
    """hidden: how many bars are left out. scale: what the whole width stands for."""

    bars: tuple[Bar, ...]
    hidden: int
    scale: str


def draw_quotas(states: Iterable[QueueState]) -> Quotas | None:
    """Of devices alone; None where no queue hands any out."""
    found = [(state, part) for state in states for part in state.parts if part.is_of_devices]
    if not found:
        return None
    longest = max(max(part.share.used, part.share.quota or 0.0) for _, part in found) or 1.0
    bars = tuple(_draw(state, part, WIDTH / longest) for state, part in found[:MOST_BARS])
    return Quotas(bars, len(found) - len(bars), tell_amount(longest, found[0][1].share.resource))


def _draw(state: QueueState, part: PartState, scale: float) -> Bar:
    queue, share = state.queue, part.share

    def tell(amount: float) -> str:
        return tell_amount(amount, share.resource)

    quota = tell(share.quota) if share.quota is not None else "no bound"
    used_words = (
        f"{tell(part.own_used)} of {quota}" if share.quota is not None else f"{tell(share.used)}, {quota}"
    )
    return Bar(
        name=f"{queue.namespace}/{queue.name}" if queue.namespace else queue.name,
        about=" · ".join(filter(None, (str(queue.controller), queue.kind, share.flavor))),
        unit=unit_of(share.resource),
        background=_length((share.quota or 0.0) * scale),
        used=_length(part.own_used * scale),
        borrowed_at=_length(part.own_used * scale),
        borrowed=_length(share.borrowed * scale),
        quota_at=_length(share.quota * scale) if share.quota is not None else "",
        used_words=used_words,
        beyond_words=_tell_beyond(part),
        label=f"{queue.name}: {used_words} {unit_of(share.resource)} used, {tell(share.borrowed)} borrowed",
        waiting=plural(queue.pending, "workload") + " waiting" if queue.pending else "",
        stopped=f"Admits nobody: {queue.stopped}" if queue.stopped else "",
    )


def _tell_beyond(part: PartState) -> str:
    """What it has borrowed, else what it could still get beyond its own."""
    share = part.share
    if share.borrowed:
        return f"+{tell_amount(share.borrowed, share.resource)} borrowed"
    own_left = max(0.0, (share.quota or 0.0) - share.used)
    if share.quota is None or part.left is None or part.left <= own_left:
        return "–"
    return f"can borrow {tell_amount(part.left - own_left, share.resource)}"


def _length(value: float) -> str:
    """With a point whatever the language, for the drawing."""
    return f"{value:.1f}"
