"""Exporters' text as people paste it, line by line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from apps.prometheus.errors import BadMetrics
from apps.prometheus.exposition import LONGEST_LINE, read_exposition
from apps.prometheus.reading import read_metrics

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True).filter(
        lambda name: not name.startswith("__")  # Prometheus' own, which the library refuses
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.just("\n"), max_size=20),
    max_size=5,
)
VALUES = st.floats(width=64) | st.integers(-(2**53), 2**53).map(float)


def written(name, labels, value):
    def escaped(text):
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inside = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if labels else f"{name} {value!r}"


@given(NAMES, LABELS, VALUES)
def test_a_sample_is_read_as_the_library_reads_it(name, labels, value):
    line = written(name, labels, value)
    (expected,) = [one for family in text_string_to_metric_families(line) for one in family.samples]
    (found,) = read_exposition(line).series
    assert found.name == expected.name
    kept = {key: text.replace("\n", "�") for key, text in expected.labels.items()}
    assert dict(found.labels) == kept
    assert found.value == expected.value or math.isnan(found.value) and math.isnan(expected.value)


@given(st.text(max_size=300))
def test_no_text_at_all_stops_the_reading(text):
    found = read_exposition(text)
    assert all(one.name for one in found.series)


def test_of_two_scrapes_the_last_counts_and_nothing_is_added():
    scrape = '# TYPE fb gauge\nfb{gpu="0"} %d\nfb{gpu="1"} %d\n'
    text = "Before the change\n" + scrape % (1, 2) + "\n-----------\n\n" + scrape % (30, 40)
    found = read_exposition(text)
    assert {one.labels["gpu"]: one.value for one in found.series} == {"0": 30.0, "1": 40.0}
    assert found.told == 4
    assert {one.scrape for one in found.series} == {1}
    assert found.warnings == []


def test_titles_prompts_rulers_and_colours_are_passed_over():
    text = '$ curl -s node:9400/metrics\n=====\n  \x1b[32mfb{gpu="0"} 7\x1b[0m\n\tfb{gpu="1"}\t8\n# EOF\n'
    assert [one.value for one in read_exposition(text).series] == [7.0, 8.0]


@pytest.mark.parametrize(
    ("line", "value", "at"),
    [
        ("a 1.5e+09", 1.5e9, None),
        ("a +Inf", math.inf, None),
        ("a 3 1767225600123", 3.0, 1767225600.123),
        ("a 3 1767225600.5", 3.0, 1767225600.5),
        ('a_total{b="c"} 3 # {trace="x"} 0.5', 3.0, None),
        ('a{b="c",} 4', 4.0, None),
        ('{"a.b", c="d"} 5', 5.0, None),
        ('a{b="c"} => 6 @[1767225600.123]', 6.0, 1767225600.123),
    ],
)
def test_spellings_of_a_value(line, value, at):
    (found,) = read_exposition(line).series
    assert (found.value, found.at) == (value, at)


@pytest.mark.parametrize(
    "line", ['a{b="c', "a{b=c} 1", 'a{b="c"} one', 'a{b="c"}', 'a{b="1",b="2"} 1', "a 1_000"]
)
def test_a_line_that_cannot_be_read_is_a_warning_and_the_rest_stands(line):
    found = read_exposition(f"{line}\nfb 1\n")
    assert [one.name for one in found.series] == ["fb"]
    assert len(found.warnings) == ("{" in line)


def test_warnings_and_lines_have_an_end():
    long = 'x{a="' + "y" * LONGEST_LINE + '"} 1'
    found = read_exposition("\n".join([long] * 50) + "\nfb 1")
    assert [one.name for one in found.series] == ["fb"]
    assert len(found.warnings) == 21
    assert "longer than 64 KiB" in found.warnings[0]


def test_text_from_outside_comes_out_clean():
    (found,) = read_exposition('fb{model="A\u202e100\x07"} 1').series
    assert found.labels["model"] == "A�100�"


@pytest.mark.parametrize(
    "text",
    [
        "m 1\n" * 6,
        '{"status": "success", "data": {"resultType": "vector", "result": ['
        + ", ".join(['{"metric": {"__name__": "m"}, "value": [1, "1"]}'] * 6)
        + "]}}",
    ],
    ids=["text", "JSON"],
)
def test_more_series_than_any_fleet_has_are_refused(text, monkeypatch):
    monkeypatch.setattr("apps.prometheus.series.MOST_SERIES", 6)
    assert read_metrics("it", text).collection.told == 6
    monkeypatch.setattr("apps.prometheus.series.MOST_SERIES", 5)
    with pytest.raises(BadMetrics, match="more than 5 series"):
        read_metrics("it", text)
