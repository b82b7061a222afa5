"""Codes and hues of workloads."""

from apps.dashboard.reading import marks
from apps.dashboard.reading.marks import HUES, mark_workloads

TWELVE = [f"team-{n % 3}/workload-{n}" for n in range(HUES)]


def test_a_workload_keeps_its_hue_whoever_else_comes_or_goes():
    everybody = mark_workloads([f"ns/job-{n}" for n in range(120)])
    for n in range(120):
        key = f"ns/job-{n}"
        assert mark_workloads([key])[key].hue == everybody[key].hue


def test_every_hue_is_used_and_codes_stay_unique():
    marks = mark_workloads([f"ns/job-{n}" for n in range(120)])
    assert {mark.hue for mark in marks.values()} == set(range(1, HUES + 1))
    assert len({mark.code for mark in marks.values()}) == 120


def test_the_order_in_which_workloads_are_met_changes_nothing():
    assert mark_workloads(TWELVE) == mark_workloads(reversed(TWELVE))


def test_a_code_comes_from_the_words_of_the_name():
    marks = mark_workloads(["ml/lora-sweep", "serving/chat-api"])
    assert marks["ml/lora-sweep"].code == "LS"
    assert marks["serving/chat-api"].code == "CA"


def test_names_without_letters_get_a_code_too():
    assert all(len(mark.code) == 2 for mark in mark_workloads(["ns/", "ns/-", "ns/7", "ns/日本"]).values())


def test_thousands_of_workloads_are_marked_without_searching_all_codes_for_each(monkeypatch):
    asked = []
    monkeypatch.setattr(marks, "_codes", lambda name: asked.append(name) or iter(["AA", "AB"]))
    found = mark_workloads(f"ml/pod-{number}" for number in range(3000))
    assert len(found) == 3000
    pairs = 26 * 36
    assert len({mark.code for mark in found.values()}) == pairs
    assert len(asked) == pairs + 1, "every pair was given away, one search found none, nobody searched again"
