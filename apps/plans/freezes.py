"""When nothing new may be started on a cluster: freeze windows, from local times to moments in UTC. Pure.

A window is told in the local time of a zone, since people mean "Friday 18:00 in Berlin", summer and winter.
Each of its spans is turned into UTC by itself, so a shift of the clocks inside a window makes that span an
hour shorter or longer and moves nothing else. Where the shift makes a local time ambiguous the window takes
the longer reading; a local time that the shift leaves out is the moment of the shift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
FAR = timedelta(days=400)
"""A freeze that lasts longer than this is told as one without an end."""
Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Window:
    """Either every week on `weekdays` (0 is Monday), each time from `start` to `end` (on the next day if that
    is not later), or once: from `start` on `first_day` to `end` on `last_day`.

    start, end: minutes after local midnight, 1440 being the end of the day.
    """

    start: int
    end: int
    time_zone: str
    reason: str
    weekdays: tuple[int, ...] = ()
    first_day: date | None = None
    last_day: date | None = None

    def spans_near(self, moment: datetime) -> Iterator[Span]:
        """Every span that could hold the moment, in UTC."""
        if self.first_day is not None and self.last_day is not None:
            yield from self._span(self.first_day, self.last_day, self.end)
            return
        yield from self._weekly(moment, range(-2, 2))

    def spans_after(self, moment: datetime) -> Iterator[Span]:
        """The spans that begin later: of a weekly window those of the next week."""
        near = self.spans_near(moment) if self.first_day else self._weekly(moment, range(-1, 9))
        yield from (span for span in near if span[0] > moment)

    def _weekly(self, moment: datetime, days: range) -> Iterator[Span]:
        today = moment.astimezone(zone_of(self.time_zone)).date()
        length = self.end if self.end > self.start else self.end + DAY_MINUTES
        for ahead in days:
            day = today + timedelta(days=ahead)
            if day.weekday() in self.weekdays:
                yield from self._span(day, day, length)

    def _span(self, first: date, last: date, end: int) -> Iterator[Span]:
        begin = instant_of(first, self.start, self.time_zone, is_end=False)
        until = instant_of(last, end, self.time_zone, is_end=True)
        if begin < until:
            yield begin, until


@dataclass(frozen=True, slots=True)
class Freeze:
    """until: in UTC; None where it goes on and on. window: the one that lasts longest now."""

    until: datetime | None
    window: Window

    @property
    def until_words(self) -> str:
        if self.until is None:
            return "further notice"
        return tell_moment(self.until, self.window.time_zone)


def freeze_at(windows: Sequence[Window], now: datetime) -> Freeze | None:
    """The freeze that holds now, if any. Windows that overlap or follow at once are one freeze."""
    until, longest = now, None
    while until - now <= FAR:
        found = [
            (end, number)
            for number, window in enumerate(windows)
            for begin, end in window.spans_near(until)
            if begin <= until < end
        ]
        if not found:
            return None if longest is None else Freeze(until, longest)
        until, number = max(found)
        longest = windows[number]
    return None if longest is None else Freeze(None, longest)


def next_span(windows: Sequence[Window], now: datetime) -> tuple[Span, Window] | None:
    """The span that begins next."""
    found = [(span, number) for number, window in enumerate(windows) for span in window.spans_after(now)]
    if not found:
        return None
    span, number = min(found)
    return span, windows[number]


@cache
def zone_of(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@cache
def zone_names() -> tuple[str, ...]:
    """The zones that a window may be told in, by name."""
    return tuple(sorted(name for name in available_timezones() if name == "UTC" or "/" in name))


def instant_of(day: date, minutes: int, zone: str, *, is_end: bool) -> datetime:
    """The moment of a local time. Of two readings a beginning takes the earlier, an end the later one."""
    place = zone_of(zone)
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    early, late = sorted(wall.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1))
    if early == late:
        return early
    if early.astimezone(place).replace(tzinfo=None) == wall:
        return late if is_end else early
    return _shift_between(early, late, place)


def _shift_between(low: datetime, high: datetime, place: ZoneInfo) -> datetime:
    """The second at which the clocks go forward."""
    before = low.astimezone(place).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low).total_seconds() // 2)
        if middle.astimezone(place).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def tell_moment(moment: datetime, zone: str) -> str:
    """In local time and in UTC."""
    local, at = moment.astimezone(zone_of(zone)), moment.astimezone(UTC)
    if zone == "UTC":
        return f"{at:%Y-%m-%d %H:%M} UTC"
    return f"{local:%Y-%m-%d %H:%M} {zone} ({at:%Y-%m-%d %H:%M} UTC)"


def tell_window(window: Window) -> str:
    start, end = tell_minutes(window.start), tell_minutes(window.end)
    if window.first_day is not None:
        return f"{window.first_day} {start} to {window.last_day} {end} {window.time_zone}"
    days = (
        "every day" if len(window.weekdays) == 7 else ", ".join(DAYS[day].title() for day in window.weekdays)
    )
    later = "" if window.end > window.start else " of the next day"
    return f"{days} {start} to {end}{later} {window.time_zone}"


def tell_minutes(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def window_from_dict(told: dict[str, Any]) -> Window:
    """As it is stored; what people send is checked first (`policy_rules`)."""
    days = tuple(sorted(DAYS.index(day) for day in told.get("weekdays", ())))
    first, last = told.get("first_day"), told.get("last_day")
    return Window(
        start=_minutes(told["start"]),
        end=_minutes(told["end"]),
        time_zone=told["time_zone"],
        reason=told["reason"],
        weekdays=days,
        first_day=date.fromisoformat(first) if first else None,
        last_day=date.fromisoformat(last) if last else None,
    )


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)
