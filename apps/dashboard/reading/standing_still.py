"""What stands still on an execution's page, in words: each stop with its buttons, and what is still held."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from apps.dashboard.reading.events import plain_reason
from apps.dashboard.reading.execution_page import KIND_WORDS
from apps.executions.cause import Way
from apps.executions.models import Execution, Step
from apps.executions.stops import Held, Stop, list_held, list_stops

BUTTONS: Mapping[Way, tuple[str, str]] = {
    Way.RESUME: ("resume", "Look again and go on"),
    Way.CANCEL: ("cancel", "Cancel"),
    Way.ROLL_BACK: ("roll-back", "Roll back"),
    Way.SETTLE: ("settle", "I have dealt with it"),
}
"""What each way is called in an address, and on its button."""
HELD_WORDS: Mapping[str, str] = {
    "cordon": "cordon",
    "hold": "room held",
    "gate": "gate for the next pod of",
    "taint": "kept by our taint",
    "layout": "MIG layout being changed",
}
ON_PURPOSE = {"paused-by-person", "stopped-by-person"}
"""Nothing is wrong: somebody wanted it so."""
_SENTENCE_END = re.compile(r"(?<=[\w)\"'][.?])\s+(?=[\w\"'/-]+[ :/])")


@dataclass(frozen=True, slots=True)
class StopCard:
    """seen: sentences. next_try: still to come; None where it is looked at all the time, or waits for a
    person."""

    stop: Stop
    title: str
    seen: tuple[str, ...]
    next_try: datetime | None
    now: str
    tone: str
    symbol: str
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldRow:
    words: str
    name: str
    since: datetime | None
    until: datetime | None


def list_cards(execution: Execution, steps: Sequence[Step], since: Mapping[int, datetime]) -> list[StopCard]:
    """Those that wait for a person first."""
    stops = list_stops(execution, steps, since)
    states = {step.position: step.get_state_display().lower() for step in steps}
    return [_card(stop, states) for stop in sorted(stops, key=lambda stop: not stop.needs_person)]


def _card(stop: Stop, states: Mapping[int, str]) -> StopCard:
    is_loud = (stop.step is not None or stop.needs_person) and stop.cause.code not in ON_PURPOSE
    is_ahead = stop.retry_at is not None and stop.retry_at > timezone.now()
    return StopCard(
        stop=stop,
        title=_title(stop, states),
        seen=_sentences(stop),
        next_try=stop.retry_at if is_ahead else None,
        now=plain_reason(stop.now),
        tone="bad" if is_loud else "warn",
        symbol="oct" if is_loud else "tri",
        ways=tuple(str(way) for way in stop.ways),
    )


def _sentences(stop: Stop) -> tuple[str, ...]:
    """One a line where a preflight found several things; who paused it in a whole sentence."""
    text = plain_reason(stop.seen)
    if not text:
        return ("no reason was told",)
    if stop.cause.code in ON_PURPOSE:
        return (f"paused {text}" if text.startswith("by ") else text,)
    return tuple(_SENTENCE_END.split(text))


def _title(stop: Stop, states: Mapping[int, str]) -> str:
    if stop.step is None:
        return ""
    whose = f"Move {stop.move}" if stop.move else stop.target
    return f"{whose}, {KIND_WORDS[stop.kind].lower()}: {states[stop.step]}"


def list_held_rows(execution: Execution, steps: Sequence[Step]) -> list[HeldRow]:
    return [_row(held) for held in _newest_last(list_held(execution, steps))]


def _newest_last(held: Iterable[Held]) -> list[Held]:
    order = list(HELD_WORDS)
    return sorted(held, key=lambda one: (order.index(one.kind), one.name))


def _row(held: Held) -> HeldRow:
    return HeldRow(HELD_WORDS[held.kind], held.name, held.since, held.until)
