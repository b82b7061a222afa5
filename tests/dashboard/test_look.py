"""A picture is looked at once, however many people ask."""

from dataclasses import replace

import pytest

from apps.clusters.queries import open_snapshot
from apps.clusters.services import record_snapshot
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.node_page import list_fits
from apps.dashboard.reading.nodes import view_node
from tests.dashboard.pictures import Board, forty_nodes


@pytest.mark.django_db
def test_the_same_picture_is_looked_at_once(cluster):
    snapshot = open_snapshot(record_snapshot(cluster_id=cluster.pk, snapshot=forty_nodes().snapshot()))
    assert look_at(snapshot) is look_at(snapshot)


@pytest.mark.django_db
def test_a_new_report_or_a_new_picture_is_looked_at_anew(cluster):
    board = Board()
    board.node("n-1", "ES . . .")
    snapshot = open_snapshot(record_snapshot(cluster_id=cluster.pk, snapshot=board.snapshot()))
    before = look_at(snapshot)
    measured = look_at(snapshot, Measures(report_id=7, worth={"n-1": 4.0}))
    again = look_at(snapshot, Measures(report_id=8, worth={"n-1": 3.0}))
    assert before.view_of("n-1").worth is None
    assert (measured.view_of("n-1").worth, again.view_of("n-1").worth) == (4.0, 3.0)
    assert look_at(snapshot) is before
    assert look_at(board.snapshot()) is not before


def test_what_did_not_change_is_not_looked_at_again():
    board = Board(cluster="changing")
    board.node("n-1", "ES . . .")
    board.node("n-2", "ES . . .")
    first = board.snapshot()
    before = look_at(first)
    gone = next(uid for uid, pod in first.pods.items() if pod.node_name == "n-2")
    second = replace(first, pods={uid: pod for uid, pod in first.pods.items() if uid != gone})
    after = look_at(second, Measures(report_id=1, blocked={"n-1": 0.5}))
    assert after.view_of("n-1").seats is before.view_of("n-1").seats
    assert after.view_of("n-1").blocked == 0.5
    assert (before.view_of("n-2").free, after.view_of("n-2").free) == (3, 4)


def test_ages_grow_in_a_look_that_is_kept(monkeypatch):
    board = Board()
    board.node("n-1", ". .", stale_since=board.now)
    view = look_at(board.snapshot()).view_of("n-1")
    first = view.state.detail
    monkeypatch.setattr("apps.dashboard.reading.nodes.seconds_since", lambda moment: 7200.0)
    assert view.state.text == "stale 2 h"
    assert view.state.detail != first


@pytest.mark.parametrize(
    ("code", "word"), [("NV12", "NVLink"), ("HCCS", "HCCS"), ("XGMI", "XGMI"), ("MTL7", "MTLink")]
)
def test_the_fast_links_are_called_by_the_name_that_their_codes_have(code, word):
    board = Board()
    node = board.node("n-1", ". . . .", code=code)
    view = view_node(board.snapshot(), node)
    assert view.link_word == word
    assert [fit.what for fit in list_fits(view)] == [f"2 GPUs, {word}", f"4 GPUs, {word}"]
