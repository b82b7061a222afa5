"""What an execution wrote down, as people say it: the event list and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from apps.executions.models import StepEvent

_CALL = re.compile(r"\b(?:GET|POST|PUT|PATCH|DELETE) /\S+: ")
_EFFECT = re.compile(r"^([a-z]+(?:_[a-z]+)*): (.+)$", re.DOTALL)
_WISHES = {"paused": "paused", "cancelling": "being cancelled", "rolling_back": "being rolled back"}
"""States that a person asks for; their message says who, and why."""
LOUD = ("blocked", "failed", "needs_human")


@dataclass(frozen=True, slots=True)
class EventLine:
    """at: of the newest; since: of the oldest where the same was told several times."""

    at: datetime
    whose: str
    text: str
    state: str
    times: int = 1
    since: datetime | None = None

    @property
    def is_loud(self) -> bool:
        return self.state in LOUD


def plain_reason(text: str) -> str:
    """Without the address of the call: the step says already which pod was asked for."""
    return _CALL.sub("", text)


def plain_message(message: str, state: str) -> str:
    """An intent in its own words; an answer with the name of what was asked."""
    found = _EFFECT.match(message)
    if found and state == "intent":
        return found[2]
    if found and state == "issued":
        return f"{found[1].replace('_', ' ')}: {found[2]}"
    return plain_reason(message)


def list_events(events: Iterable[StepEvent]) -> list[EventLine]:
    """events: newest first. What one step says again and again (a refused try) is one line with its count."""
    lines: dict[tuple[int | None, str, str], EventLine] = {}
    for event in events:
        text = plain_message(event.message, event.state)
        if event.step_id is None:
            text = _told_with_its_state(text, event.state)
        key = (event.step_id, event.state, text)
        known = lines.get(key)
        if known is None:
            lines[key] = EventLine(event.at, _whose(event), text, event.state)
        else:
            lines[key] = replace(known, times=known.times + 1, since=event.at)
    return list(lines.values())


def _told_with_its_state(text: str, state: str) -> str:
    """ "paused by ada" where the message is "by ada"; "paused: ada: the network" where it gives a reason."""
    word = _WISHES.get(state, "")
    if not word or text.lower().startswith(word):
        return text
    return f"{word} {text}" if text.startswith("by ") else f"{word}: {text}"


def _whose(event: StepEvent) -> str:
    step = event.step
    if step is None:
        return ""
    kind = step.get_kind_display().lower().replace("mig", "MIG")
    return f"Move {step.move}, {kind}" if step.move else f"{kind[:1].upper()}{kind[1:]}, {step.target}"
