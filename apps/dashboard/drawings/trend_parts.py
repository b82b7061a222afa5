"""Parts that the charts share: axes, shapes, labels at the right edge, marks of plans, notes in gaps.

A name is "role token": which part it is, and the token of the palette that paints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.dashboard.reading.plain import visible
from apps.dashboard.reading.trend import Gap, PlanMark

TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S\n%-d %b"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M\n%-d %b"},
    {"dtickrange": [86_400_000, None], "value": "%-d %b\n%Y"},
]


def spread(middles: Sequence[float], least: float, top: float) -> list[float]:
    """The same order, at least `least` apart, kept under `top` as far as there is room."""
    placed: list[float] = []
    for middle in middles:
        placed.append(max(middle, placed[-1] + least) if placed else max(middle, least / 2))
    limit = top
    for at in reversed(range(len(placed))):
        placed[at] = max(min(placed[at], limit), least / 2)
        limit = placed[at] - least
    return placed


def shape(kind: str, begin: datetime, end: datetime, name: str, line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "xref": "x",
        "x0": time_text(begin),
        "x1": time_text(end),
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": dict(line),
        "layer": "below" if kind == "rect" else "above",
    }


def mark_note(mark: PlanMark, has_room: bool) -> dict[str, Any]:
    text = f"○ plan {mark.plan_id} {mark.word}" if has_room else "○"
    return {
        "name": f"mark-{mark.execution_id} ink-2",
        "xref": "x",
        "x": time_text(mark.at),
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "xanchor": "left",
        "xshift": -6,
        "showarrow": False,
        "text": text,
        "hovertext": escaped(mark.title),
        "captureevents": True,
        "font": {"size": 11},
    }


def gap_note(gap: Gap, span: timedelta) -> dict[str, Any]:
    middle = gap.begin + (gap.end - gap.begin) / 2
    return {
        "name": "gap ink-3",
        "xref": "x",
        "x": time_text(middle),
        "yref": "paper",
        "y": 0.5,
        "showarrow": False,
        "text": gap.why,
        "textangle": 0 if gap.end - gap.begin > span / 5 else -90,
        "font": {"size": 11},
    }


def label(text: str, y: float, shift: int, name: str, size: int = 11) -> dict[str, Any]:
    return {
        "name": name,
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": shift,
        "yref": "y",
        "y": round(y, 4),
        "yanchor": "middle",
        "showarrow": False,
        "text": escaped(text),
        "font": {"size": size},
    }


def escaped(text: str) -> str:
    """Plotly reads a little HTML in texts; a name from a cluster stays a name."""
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(name: str) -> str:
    word = visible(name)
    return word if len(word) <= 18 else f"{word[:17]}…"


def gpu_axis(most: float) -> dict[str, Any]:
    """A y axis of GPUs: about five steps of a power of two, which is how nodes and blocks come."""
    step = next(2**power for power in range(40) if most <= 2**power * 5)
    top = max(step, -(-most * 1.02 // step) * step)
    return {"range": [0, top], "dtick": step, "fixedrange": True, "tickformat": ",d"}


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
