"""Names of nodes, short enough to stand in a row and still to be told apart."""

import pytest

from apps.dashboard.reading.names import shorten_names
from apps.dashboard.reading.words import sentence


def test_what_all_names_share_is_said_once():
    names = shorten_names([f"gke-prod-a100-pool-7f3d9c2a-{n:04x}" for n in range(20)])
    assert names.begin == "gke-prod-a100-pool-7f3d9c2a-"
    assert names.short["gke-prod-a100-pool-7f3d9c2a-0012"] == "…0012"
    assert names.note == "names gke-prod-a100-pool-7f3d9c2a-…"


def test_a_shared_domain_goes_and_the_address_stays():
    domain = ".eu-west-1.compute.internal"
    names = shorten_names([f"ip-10-0-12-3{domain}", f"ip-10-0-9-14{domain}"])
    assert set(names.short.values()) == {"…12-3", "…9-14"}
    assert names.end == domain


def test_short_names_stay_whole():
    names = shorten_names(["a100-07", "a100-08"])
    assert names.short == {"a100-07": "a100-07", "a100-08": "a100-08"}
    assert names.note == ""


def test_nothing_is_cut_that_would_leave_a_name_empty():
    names = shorten_names(["a-very-long-node-name-", "a-very-long-node-name-7"])
    assert all(short.strip("…") for short in names.short.values())


def test_names_that_differ_at_once_are_cut_in_the_middle():
    names = shorten_names(["left-" + "x" * 40, "right-" + "x" * 40])
    assert {len(short) for short in names.short.values()} == {20}
    assert len(set(names.short.values())) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("you may not", "You may not"),
        ("give either, or both", "Give either, or both"),
        ("nc3bad.json: neither JSON nor YAML", "nc3bad.json: neither JSON nor YAML"),
        ("embed-svc allows 1", "embed-svc allows 1"),
        ("max_moves is 9", "max_moves is 9"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_but_an_identifier_is_not_changed(text, told):
    assert sentence(text) == told
