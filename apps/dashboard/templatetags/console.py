"""What templates need: safe cluster text, times in UTC, chips, signs and plural words."""

from __future__ import annotations

import json
from collections.abc import Sized
from datetime import UTC, datetime
from html import escape

from django import template
from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.drawings import icons
from apps.dashboard.reading import plain, times, words
from apps.dashboard.reading.words import plural

register = template.Library()


@register.filter
def shown(text: object) -> SafeString:
    """Text that came from a cluster: escaped, invisible characters made visible."""
    return mark_safe(plain.shown("" if text is None else text))


@register.filter
def short(text: object, most: int = 22) -> SafeString:
    """A name from a cluster, cut in the middle where it is long. Give the whole one as a title."""
    return mark_safe(escape(plain.shorten(text, int(most))))


@register.filter
def moment(when: datetime | float | None, form: str = "short") -> SafeString:
    """A time in UTC; the browser adds the local time on hover. form: "short" (time of day), "dated" (with
    the day unless that is today), "clock" or "full"."""
    if when is None or when == "":
        return mark_safe('<span class="quiet">not known</span>')
    at = when.astimezone(UTC) if isinstance(when, datetime) else datetime.fromtimestamp(when, UTC)
    text = (
        f"{at:%H:%M:%S}"
        if form == "clock"
        else f"{_day(at) if form == 'dated' else ''}{at:%H:%M:%S} UTC"
        if form in ("short", "dated")
        else f"{at:%Y-%m-%d %H:%M:%S} UTC"
    )
    stamp = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return mark_safe(f'<time datetime="{stamp}" data-local title="{at:%Y-%m-%d %H:%M:%S} UTC">{text}</time>')


def _day(at: datetime) -> str:
    return "" if at.date() == datetime.now(UTC).date() else f"{at.day} {at:%b} "


@register.filter
def as_json(value: object) -> str:
    """Lists and objects as JSON; text and numbers as they are."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


@register.filter
def ago(when: datetime | float | None) -> str:
    seconds = times.seconds_since(when)
    return "not known" if seconds is None else f"{times.duration(seconds)} ago"


@register.filter
def sentence(text: object) -> str:
    """With a capital at its beginning, unless an identifier stands there."""
    return words.sentence(str(text))


@register.filter
def lasting(seconds: float | None) -> str:
    return "not known" if seconds is None else times.duration(seconds)


@register.filter
def grouped(number: int) -> str:
    """Thousands set apart: 6,212."""
    return f"{number:,}"


@register.filter
def counted(things: int | Sized, word: str) -> str:
    """{{ 3|counted:"node" }} -> 3 nodes."""
    return plural(things if isinstance(things, int) else len(things), word)


@register.simple_tag
def chip(word: str, tone: str = "", symbol: str = "") -> SafeString:
    return icons.chip(word, tone, symbol)


@register.simple_tag
def sign(name: str, extra: str = "") -> SafeString:
    return icons.sign(name, extra)


@register.simple_tag
def tag(mark: object) -> SafeString:
    return icons.tag(mark)  # type: ignore[arg-type]
