"""Ages and durations in words. Times themselves are shown in UTC; the browser adds the local time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone


@dataclass(frozen=True, slots=True)
class Age:
    """state: live, late or stale (the style and the word); text: how the page says it."""

    state: str
    text: str
    taken_at: datetime | None


def age_of(taken_at: datetime | None, *, is_live: bool = True) -> Age:
    """Live under SNAPSHOT_LIVE_SECONDS, late under SNAPSHOT_STALE_SECONDS, then stale.

    is_live: a dump does not age, it was never of now."""
    if taken_at is None:
        return Age("stale", "no snapshot yet", None)
    if not is_live:
        # A dump in which nothing tells a time counts as taken in 1970.
        told = (
            f" of {taken_at:%d %b %Y %H:%M} UTC"
            if taken_at.year > 1970
            else ", of which nothing tells its time"
        )
        return Age("late", f"a dump{told}", None)
    seconds = max(0.0, (timezone.now() - taken_at).total_seconds())
    words = f"as of {duration(seconds)} ago"
    if seconds < settings.SNAPSHOT_LIVE_SECONDS:
        return Age("live", words, taken_at)
    if seconds < settings.SNAPSHOT_STALE_SECONDS:
        return Age("late", f"{words}, late", taken_at)
    return Age("stale", f"stale: {words}", taken_at)


def duration(seconds: float) -> str:
    """ "4 s", "47 min", "3 h 12 min", "2 days": two units at most, rounded down."""
    whole = int(max(0, seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" if minutes >= 10 or not rest else f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def rough_duration(seconds: float) -> str:
    """One unit only, for where there is little room: "6 min", "3 h"."""
    return " ".join(duration(seconds).split()[:2])


def gpu_time(seconds: float) -> str:
    """GPU-seconds as "40 GPU-min", "3.2 GPU-h", "432 GPU-h"."""
    hours = seconds / 3600
    if hours < 1:
        return f"{seconds / 60:.0f} GPU-min" if seconds >= 60 else f"{seconds:.0f} GPU-s"
    return f"{hours:,.0f} GPU-h" if hours >= 9.95 else f"{hours:.1f} GPU-h"


def seconds_since(moment: datetime | float | None) -> float | None:
    """moment: a datetime or epoch seconds, as snapshots carry them."""
    if moment is None:
        return None
    stamp = moment.timestamp() if isinstance(moment, datetime) else moment
    return max(0.0, timezone.now().timestamp() - stamp)
