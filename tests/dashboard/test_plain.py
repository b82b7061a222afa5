"""Cluster text on a page or in a spreadsheet cannot do anything but be read."""

import pytest

from apps.dashboard.reading.plain import cell_text, shorten, shown, visible


def test_ordinary_names_stay_as_they_are():
    assert visible("ml/lora-sweep-41") == "ml/lora-sweep-41"
    assert visible("größe 8×H100") == "größe 8×H100"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("pod\u202egnp.exe", "pod⟨U+202E⟩gnp.exe"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("line\nbreak", "line⟨U+000A⟩break"),
        ("\x1b[31mred", "⟨U+001B⟩[31mred"),
        ("\u2066isolate", "⟨U+2066⟩isolate"),
    ],
)
def test_invisible_and_direction_changing_characters_are_written_out(text, seen):
    assert visible(text) == seen


def test_markup_is_escaped():
    assert shown('<img src=x onerror="alert(1)">') == "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "＝", "＋", "－", "＠", " =", "\t="])
def test_cells_that_a_spreadsheet_would_run_are_neutralised(start):
    assert str(cell_text(f"{start}cmd()")).startswith(("'", "⟨"))


@pytest.mark.parametrize("value", [3, -2.5, "-2", "+4.5", "a100-07", "v1.33"])
def test_numbers_and_names_are_left_alone_in_cells(value):
    assert cell_text(value) == value


def test_a_long_name_keeps_its_end_because_that_is_where_names_differ():
    short = shorten("gke-prod-a100-pool-7f3d9c2a-0012")
    assert len(short) == 22
    assert short.startswith("gke-pro")
    assert short.endswith("9c2a-0012")
    assert shorten("a100-07") == "a100-07"
    assert "\u202e" not in shorten("\u202e" + "x" * 60)
