"""The time line of an execution: a lane per move and per node, a bar per step, a line for now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.plain import shorten, shown

NAME, ROOM, ROW, TOP = 190, 650, 18, 20
TICKS = (5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400)


@dataclass(frozen=True, slots=True)
class Bar:
    """kind: verified, issued, blocked or quiet."""

    begin: datetime
    end: datetime
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    number: str
    name: str
    bars: tuple[Bar, ...]
    note: str = ""


def draw_timeline(lanes: Sequence[Lane], start: datetime, now: datetime, *, is_open: bool) -> SafeString:
    """start: left edge. now: right end of what is known; is_open draws it as a line."""
    span = max((now - start).total_seconds(), 10) * (1.18 if is_open else 1.02)
    bottom = TOP + len(lanes) * ROW

    def x(at: datetime) -> float:
        return NAME + max(0.0, (at - start).total_seconds()) / span * ROOM

    parts = _ticks(start, span, bottom)
    for order, lane in enumerate(lanes):
        y = TOP + order * ROW
        parts.append(f'<text class="rowname" x="0" y="{y + 11}">{shown(lane.number)}</text>')
        parts.append(f'<text class="lbl2" x="18" y="{y + 11}">{escape(shorten(lane.name, 26))}</text>')
        parts += [_bar(bar, x(bar.begin), x(bar.end), y) for bar in lane.bars]
        if lane.note:
            after = x(lane.bars[-1].end) + 6 if lane.bars else NAME + 4
            parts.append(f'<text class="axis" x="{after:.1f}" y="{y + 11}">{shown(lane.note)}</text>')
    if is_open:
        at = x(now)
        parts.append(f'<path class="nowline" d="M{at:.1f} 14V{bottom}"/>')
        clock = f"{now.astimezone(UTC):%H:%M:%S}"
        parts.append(f'<text class="lbl nowt" x="{at + 4:.1f}" y="{bottom + 12}">now {clock}</text>')
    size = f"0 0 {NAME + ROOM + 10} {bottom + 16}"
    label = f"Time line of {len(lanes)} lanes; the tables below hold the same steps"
    return mark_safe(
        f'<svg class="chart" viewBox="{size}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _bar(bar: Bar, begin: float, end: float, y: float) -> str:
    width = max(end - begin - 1, 2)
    return (
        f'<rect class="lane {bar.kind}" x="{begin:.1f}" y="{y + 1}" width="{width:.1f}" height="12" rx="1.5">'
        f"<title>{shown(bar.title)}</title></rect>"
    )


def _ticks(start: datetime, span: float, bottom: int) -> list[str]:
    step = next((tick for tick in TICKS if span / tick <= 7), TICKS[-1])
    first = start.astimezone(UTC).replace(microsecond=0)
    first += timedelta(seconds=-(first.hour * 3600 + first.minute * 60 + first.second) % step)
    form = "%H:%M:%S" if step < 60 else "%H:%M"
    parts = []
    for count in range(int(span // step) + 1):
        at = first + timedelta(seconds=count * step)
        x = NAME + (at - start).total_seconds() / span * ROOM
        if x > NAME + ROOM:
            break
        parts.append(f'<path class="gridline" d="M{x:.1f} 16V{bottom}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="11" text-anchor="middle">{at:{form}}</text>')
    return parts
