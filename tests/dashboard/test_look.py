"""A picture is looked at once, however many people ask."""

import pytest

from apps.clusters.queries import open_snapshot
from apps.clusters.services import record_snapshot
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import Measures
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


def test_ages_grow_in_a_look_that_is_kept(monkeypatch):
    board = Board()
    board.node("n-1", ". .", stale_since=board.now)
    view = look_at(board.snapshot()).view_of("n-1")
    first = view.state.detail
    monkeypatch.setattr("apps.dashboard.reading.nodes.seconds_since", lambda moment: 7200.0)
    assert view.state.text == "stale 2 h"
    assert view.state.detail != first
