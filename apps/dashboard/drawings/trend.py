"""The charts of the Fragmentation page as Plotly figures: plain dictionaries, no import of plotly.

Figures carry no colour. A trace names the tokens it is painted with in `meta`, a shape or
annotation in its `name` ("role token"); static/js/trend.js reads the palette from the style sheet, so
both themes draw the same figure. All time axes have the same range and the same margins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apps.dashboard.drawings.trend_parts import (
    TICKS,
    gap_note,
    gpu_axis,
    label,
    mark_note,
    shape,
    short,
    spread,
    time_text,
)
from apps.dashboard.reading.trend import PlanMark, Sample, Trend
from apps.dashboard.reading.trend_words import BLOCKS, CAUSES, clock
from apps.dashboard.reading.words import amount
from apps.fragmentation.trends import TrendPoint

CAUSE_TOKENS = {
    "lacks_gpu": "cat-3",
    "lacks_cpu": "cat-2",
    "lacks_both": "cat-1",
    "model_not_allowed": "cat-10",
    "cpu_only": "cat-4",
    "usable": "surface-2",
}
EDGES = {"usable": "line-strong"}
"""What is free and can be used is empty, as everywhere: an outline."""
BLOCK_TOKENS = {"8": "link-0", "4": "link-1", "2": "link-2", "1": "link-3"}
MARGIN = {"l": 44, "r": 198, "t": 26, "b": 36, "pad": 0}
HEIGHTS = {"causes": 330, "blocks": 230, "gang": 190, "now": 200}
LABEL_PX = 17
MARK_SHARE = 0.18
"""A plan is named at its mark where this share of the range is free to the right; the table names all."""

Figure = dict[str, Any]
Value = Callable[[TrendPoint], float | None]


def draw_figures(trend: Trend, wanted: tuple[int, str] | None) -> dict[str, Figure]:
    """wanted: GPUs and name of the largest gang that waits."""
    return {
        "causes": _draw_causes(trend),
        "blocks": _draw_blocks(trend),
        "gang": _draw_gang(trend, wanted),
        "now": _draw_now(trend),
    }


def _draw_causes(trend: Trend) -> Figure:
    layers: dict[str, Value] = {
        name: lambda point, name=name: point.by_cause.get(name, 0) / 1000  # type: ignore[misc]
        for name in CAUSES
    }
    return _stack(trend, "causes", layers, CAUSES, CAUSE_TOKENS, "%{y:.1f}")


def _draw_blocks(trend: Trend) -> Figure:
    def gpus(size: str) -> Value:
        def ask(point: TrendPoint) -> float | None:
            return int(size) * point.free_blocks[size] if size in point.free_blocks else None

        return ask

    names = {size: f"Blocks of {size}" if size != "1" else "Single GPUs" for size in BLOCKS}
    return _stack(trend, "blocks", {size: gpus(size) for size in BLOCKS}, names, BLOCK_TOKENS, "%{y}")


def _stack(
    trend: Trend,
    figure: str,
    layers: Mapping[str, Value],
    names: Mapping[str, str],
    tokens: Mapping[str, str],
    form: str,
) -> Figure:
    """Layers on top of each other, each run a stack of its own, so that a gap stays empty."""
    runs = [_known(run, list(layers.values())) for run in trend.runs]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": names[key],
            "stackgroup": f"run-{number}",
            "line": {"shape": "hv", "width": 1 if key in EDGES or not _is_dense(run, trend) else 0},
            "x": [time_text(sample.at) for sample in run],
            "y": [round(value(sample.point) or 0, 4) for sample in run],
            "hovertemplate": f"%{{fullData.name}}: {form}<extra></extra>",
            "meta": {"line": EDGES.get(key, "surface-1"), "fill": tokens[key]},
        }
        for number, run in enumerate(runs)
        if run
        for key, value in layers.items()
    ]
    points = [sample.point for run in runs for sample in run]
    totals = [sum(value(point) or 0 for value in layers.values()) for point in points]
    axis = gpu_axis(max(totals, default=0))
    shown = {key: value for key, value in layers.items() if any((value(p) or 0) >= 0.05 for p in points)}
    labels = (
        _label_layers(points[-1], shown, names, tokens, axis["range"][1], HEIGHTS[figure]) if points else []
    )
    return _figure(trend, figure, traces, axis, labels)


def _is_dense(run: Sequence[Sample], trend: Trend) -> bool:
    """Whether edges between the layers would cover the layers."""
    share = (run[-1].at - run[0].at) / (trend.until - trend.since)
    return len(run) > 90 * share


def _known(run: Sequence[Sample], values: Sequence[Value]) -> list[Sample]:
    return [sample for sample in run if all(value(sample.point) is not None for value in values)]


def _label_layers(
    point: TrendPoint,
    layers: Mapping[str, Value],
    names: Mapping[str, str],
    tokens: Mapping[str, str],
    top: float,
    height: int,
) -> list[dict[str, Any]]:
    """Direct labels at the right edge, each beside its layer, pushed apart where layers are thin."""
    middles, base = [], 0.0
    for value in layers.values():
        size = value(point) or 0.0
        middles.append(base + size / 2)
        base += size
    least = top * LABEL_PX / (height - MARGIN["t"] - MARGIN["b"])
    labels = []
    for (key, value), y in zip(layers.items(), spread(middles, least, top - least / 2), strict=True):
        labels.append(_key_of(key, tokens[key], y))
        labels.append(label(f"{names[key]}: {amount((value(point) or 0) * 1000)}", y, 20, "label ink-2"))
    return labels


def _key_of(layer: str, token: str, y: float) -> dict[str, Any]:
    mark, colour = ("□", EDGES[layer]) if layer in EDGES else ("■", token)
    return label(mark, y, 4, f"label {colour}", 15)


def _draw_gang(trend: Trend, wanted: tuple[int, str] | None) -> Figure:
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "largest gang",
            "line": {"shape": "hv", "width": 2},
            "x": [time_text(sample.at) for sample in run],
            "y": [sample.point.gang_gpus for sample in run],
            "customdata": [_gang(sample.point) for sample in run],
            "hovertemplate": "%{y} GPUs: %{customdata}<extra></extra>",
            "meta": {"line": "accent"},
        }
        for run in trend.runs
    ]
    most = max((point.gang_gpus for point in trend.points), default=0)
    one_pod = trend.last.largest_gang["gpus_per_pod"] if trend.last else 1
    axis = gpu_axis(max(most, wanted[0] if wanted else 0, one_pod))
    labels, shapes = [], []
    heights = [float(trend.last.gang_gpus)] if trend.last else []
    if wanted:
        line = {"width": 1.5, "dash": "dash"}
        shapes.append(shape("line", trend.since, trend.until, "wanted warn-mark", line) | {
            "yref": "y", "y0": wanted[0], "y1": wanted[0]
        })  # fmt: skip
        least = axis["range"][1] * LABEL_PX / (HEIGHTS["gang"] - MARGIN["t"] - MARGIN["b"])
        above = wanted[0]
        if heights and abs(heights[0] - above) < least:
            heights[0] = above - least if above >= least else above + least
        labels.append(label(f"{wanted[0]}: {short(wanted[1])} wants", above, 4, "label ink-2"))
    if trend.last:
        labels.append(label(f"{trend.last.gang_gpus}: now", heights[0], 4, "label accent"))
    return _figure(trend, "gang", traces, axis, labels, shapes)


def _draw_now(trend: Trend) -> Figure:
    """Free blocks by size: now, beside the beginning of the range."""
    ends = (
        (trend.last, "now", {"fill": "accent", "line": "accent"}),
        (trend.first, _then(trend), {"fill": "surface-1", "line": "ink-2"}),
    )
    known = [end for end in ends if end[0] is not None and end[0].free_blocks]
    counts = [[point.free_blocks[size] for size in reversed(BLOCKS)] for point, _, _ in known if point]
    bars = [_bar(name, heights, meta) for (_, name, meta), heights in zip(known, counts, strict=True)]
    top = max((height for heights in counts for height in heights), default=0)
    return {
        "data": bars,
        "layout": {
            "height": HEIGHTS["now"],
            "margin": {"l": 8, "r": 8, "t": 22, "b": 28, "pad": 0},
            "barmode": "group",
            "bargap": 0.35,
            "showlegend": False,
            "dragmode": False,
            "xaxis": {"type": "category", "fixedrange": True, "showgrid": False},
            "yaxis": {"visible": False, "fixedrange": True, "range": [0, max(top, 1) * 1.12]},
        },
    }


def _then(trend: Trend) -> str:
    return f"at {clock(trend.known_since, trend.until)}"


def _bar(name: str, counts: Sequence[int], meta: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": ["1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"],
        "y": list(counts),
        "text": [str(count) for count in counts],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"line": {"width": 1.5}},
        "hovertemplate": f"%{{y}} free blocks of %{{x}}, {name}<extra></extra>",
        "meta": dict(meta),
    }


def _figure(
    trend: Trend,
    name: str,
    traces: list[dict[str, Any]],
    axis: dict[str, Any],
    labels: Sequence[dict[str, Any]],
    shapes: Sequence[dict[str, Any]] = (),
) -> Figure:
    plans = [_mark_line(mark) for mark in trend.marks]
    notes = [
        mark_note(mark, has_room) for mark, has_room in zip(trend.marks, _room_for_text(trend), strict=True)
    ]
    edge = {"width": 1, "dash": "dot"}
    gaps = [shape("rect", gap.begin, gap.end, "gap ink-3", edge) for gap in trend.gaps]
    span = trend.until - trend.since
    named = [gap_note(gap, span) for gap in trend.gaps if gap.end - gap.begin > span / 40]
    return {
        "data": traces,
        "layout": {
            "height": HEIGHTS[name],
            "margin": MARGIN,
            "showlegend": False,
            "hovermode": "x unified",
            "dragmode": "zoom",
            "xaxis": {
                "type": "date",
                "range": [time_text(trend.since), time_text(trend.until)],
                "hoverformat": "%-d %b %H:%M:%S UTC",
                "showgrid": False,
                "nticks": 7,
                "tickangle": 0,
                "tickformatstops": TICKS,
            },
            "yaxis": axis,
            "shapes": [*gaps, *shapes, *plans],
            "annotations": [*labels, *named, *notes],
        },
    }


def _room_for_text(trend: Trend) -> list[bool]:
    least = (trend.until - trend.since) * MARK_SHARE
    times = [mark.at for mark in trend.marks]
    return [after is None or after - at > least for at, after in zip(times, [*times[1:], None], strict=False)]


def _mark_line(mark: PlanMark) -> dict[str, Any]:
    return shape("line", mark.at, mark.at, "mark ink-2", {"width": 1, "dash": "dot"})


def _gang(point: TrendPoint) -> str:
    return f"{point.largest_gang['pods']} × {point.largest_gang['gpus_per_pod']}"
