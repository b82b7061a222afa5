"""The figures are plain dictionaries; Plotly itself says whether they are figures."""

from datetime import UTC, datetime, timedelta

import plotly.graph_objects as go
import pytest

from apps.dashboard.drawings.trend import draw_figures
from apps.dashboard.drawings.trend_parts import gpu_axis, spread
from apps.dashboard.reading.trend import Gap, PlanMark, Sample, Trend
from apps.dashboard.reading.trend_words import clock, list_rows, say_change, tell_trend_tiles
from apps.fragmentation.trends import Scope, TrendPoint

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def point(minute=0, *, lost=3000, lacks_cpu=0, pods=1, blocks=True, gap=False, stranded=(3.0, "waiting")):
    body = {
        "fragmentation_milli": lost + lacks_cpu,
        "idle_milli": 20_000,
        "total_milli": 64_000,
        "by_cause": {"lacks_gpu": lost, "lacks_cpu": lacks_cpu, "usable": 20_000 - lost - lacks_cpu},
        "free_nodes": {"8": 1},
        "largest_gang": {"pods": pods, "gpus_per_pod": 8, "link": "nvlink"},
        "stranded_gpus": stranded[0],
        "stranded_by": stranded[1],
    }
    if blocks:
        body["free_blocks"] = {"8": 1, "4": 2, "2": 1, "1": 2}
    at = NOON + timedelta(minutes=minute)
    return TrendPoint(minute, minute, at, at + timedelta(minutes=1), body, gap)


def trend(*runs, marks=(), gaps=()):
    samples = [
        [Sample(one.measured_at, one) for one in run] + [Sample(run[-1].seen_until, run[-1])] for run in runs
    ]
    points = [one for run in runs for one in run]
    until = NOON + timedelta(hours=1)
    return Trend("1h", Scope(), NOON, until, points, samples, list(gaps), list(marks))


def mark(minute, title="Free 3 nodes for <b>llama</b> & more"):
    at = NOON + timedelta(minutes=minute)
    return PlanMark(7, 3, title, "carried out", at, at, 3000, None, "3 nodes free", True)


EVERYTHING = trend(
    [point(0, blocks=False), point(5)],
    [point(20, lost=9000, lacks_cpu=4000, pods=0, gap=True), point(30)],
    marks=[mark(10), mark(12), mark(50)],
    gaps=[Gap(NOON + timedelta(minutes=6), NOON + timedelta(minutes=20), "not seen")],
)


@pytest.mark.parametrize("drawn", [trend(), trend([point()]), EVERYTHING], ids=["empty", "one point", "all"])
@pytest.mark.parametrize("wanted", [None, (24, "llama-70b")])
def test_every_figure_is_one_that_plotly_accepts(drawn, wanted):
    figures = draw_figures(drawn, wanted)
    assert set(figures) == {"causes", "blocks", "gang", "now"}
    for figure in figures.values():
        go.Figure(figure, skip_invalid=False)


def test_no_figure_names_a_colour_and_every_part_names_its_token():
    for figure in draw_figures(EVERYTHING, (24, "llama-70b")).values():
        text = str(figure)
        assert "#" not in text
        assert "rgb" not in text
        assert all(trace["meta"] for trace in figure["data"])
        for part in [*figure["layout"].get("shapes", []), *figure["layout"].get("annotations", [])]:
            role, token = part["name"].split(" ")
            assert role
            assert token


def test_the_time_axes_are_the_same():
    figures = draw_figures(EVERYTHING, None)
    axes = [figures[name]["layout"]["xaxis"] for name in ("causes", "blocks", "gang")]
    assert axes[0] == axes[1] == axes[2]
    margins = [figures[name]["layout"]["margin"] for name in ("causes", "blocks", "gang")]
    assert margins[0] == margins[1] == margins[2]


def test_runs_are_stacked_apart_and_old_reports_without_blocks_are_no_zero():
    figures = draw_figures(EVERYTHING, None)
    first = [trace for trace in figures["blocks"]["data"] if trace["stackgroup"] == "run-0"]
    assert {trace["x"][0] for trace in first} == {"2026-03-04T12:05:00"}
    assert [trace["y"] for trace in first] == [[8, 8], [8, 8], [2, 2], [2, 2]]


def test_labels_stand_at_their_layers_and_never_on_each_other():
    figures = draw_figures(EVERYTHING, (24, "llama-70b"))
    labels = [n for n in figures["causes"]["layout"]["annotations"] if n["name"] == "label ink-2"]
    assert [note["text"] for note in labels] == ["Too few GPUs on the node: 3", "Lacks CPU: 0", "Usable: 17"]
    heights = [note["y"] for note in labels]
    assert heights == sorted(heights)
    assert all(after - before > 1 for before, after in zip(heights, heights[1:], strict=False))
    gang = [n["text"] for n in figures["gang"]["layout"]["annotations"] if n["name"].startswith("label")]
    assert gang == ["24: llama-70b wants", "8: now"]


@pytest.mark.parametrize("middles", [[0, 0, 0], [1, 1.5, 9.9], [9, 9.5, 10], [0, 5, 10]])
def test_spread_keeps_order_and_distance(middles):
    placed = spread(middles, 1.0, 9.5)
    assert all(after - before >= 0.999 for before, after in zip(placed, placed[1:], strict=False))
    assert placed[0] >= 0.5
    assert placed[-1] <= 9.5


def test_names_from_outside_are_no_markup():
    figures = draw_figures(EVERYTHING, (24, "<a href='x'>y</a>"))
    notes = figures["gang"]["layout"]["annotations"]
    assert not any("<" in note["text"] + note.get("hovertext", "") for note in notes)


def test_marks_too_close_to_each_other_are_named_in_the_table_alone():
    notes = draw_figures(EVERYTHING, None)["causes"]["layout"]["annotations"]
    assert [n["text"] for n in notes if n["name"].startswith("mark")] == [
        "○",
        "○ plan 3 carried out",
        "○ plan 3 carried out",
    ]


@pytest.mark.parametrize(("most", "top", "step"), [(0, 1, 1), (5, 6, 1), (24, 32, 8), (200, 256, 64)])
def test_axes_go_in_powers_of_two(most, top, step):
    axis = gpu_axis(most)
    assert (axis["range"], axis["dtick"]) == ([0, top], step)


def test_the_sentence_names_the_change_and_the_worst_cause():
    assert say_change(trend([point(0, pods=3), point(30, lost=2000, lacks_cpu=12_000, pods=0)])) == (
        "Since 12:00 the largest gang that could start fell from 3 × 8 to 0 × 8; 12 GPUs lack CPU."
    )
    assert say_change(trend([point(0, pods=0), point(30, lost=1000, pods=2)])) == (
        "Since 12:00 the largest gang that could start rose from 0 × 8 to 2 × 8; "
        "1 GPU lies on a node with too few free GPUs."
    )
    assert say_change(trend()) == ""


def test_a_long_history_is_a_short_table():
    rows = list_rows(trend([point(minute) for minute in range(60)]))
    assert len(rows) <= 24
    assert [row.at for row in rows] == sorted((row.at for row in rows), reverse=True)


def test_a_time_says_its_day_when_it_was_another():
    assert clock(NOON, NOON + timedelta(hours=2)) == "12:00"
    assert clock(NOON, NOON + timedelta(hours=23)) == "Wed 12:00"
    assert clock(NOON, NOON + timedelta(days=20)) == "4 Mar 12:00"


@pytest.mark.parametrize(
    ("first", "last", "note"),
    [
        ((9.0, "waiting"), (3.0, "waiting"), "of no use to any shape that waits; 6 down since 12:00"),
        (
            (0.0, "wanted"),
            (3.0, "waiting"),
            "of no use to any shape that waits; not comparable with 12:00, "
            "which was against what was wanted (nothing waited)",
        ),
        (
            (9.0, "waiting"),
            (0.0, "wanted"),
            "of no use to any wanted shape (nothing waits); not comparable with 12:00, "
            "which was against what waited",
        ),
        (
            (9.0, ""),
            (3.0, "waiting"),
            "not comparable with 12:00, which was against something that is not told",
        ),
    ],
)
def test_what_is_stranded_is_compared_only_where_it_was_against_the_same(first, last, note):
    tile = tell_trend_tiles(trend([point(0, stranded=first), point(30, stranded=last)]), "")[0]
    assert tile.name == "Stranded now"
    assert tile.note.endswith(note)
