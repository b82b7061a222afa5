"""Verdicts on their way to rows: no answer waits for the database, and what is lost is counted."""

import asyncio
import threading

import pytest

from apps.placing import states
from apps.placing.models import ExtenderBeat
from apps.placing.models import Verdict as Row
from apps.planner.whatif_scores import ScorePart
from apps.scheduling.extender import keeping
from apps.scheduling.extender.kept_verdicts import KeptVerdicts
from apps.scheduling.extender.options import WhenStale
from apps.scheduling.extender.policies import POLICIES
from apps.scheduling.extender.verdicts import TopNode, Verdict
from tests.cluster_fixtures import wait_until
from tests.plans.situations import make_cluster


def verdict(number, **facts):
    return Verdict("filter", 1000.0 + number, f"u{number}", f"ml/p{number}", "packing", 0.2, **facts)


@pytest.mark.django_db
def test_they_become_rows_in_their_order_and_the_oldest_are_lost_where_nobody_writes():
    sink = KeptVerdicts(make_cluster().pk, most=3)
    for number in range(5):
        sink.keep(verdict(number, refused={"too few free GPUs": number + 1}))
    assert (sink.lost, sink.asked_at) == (2, 1004.0)
    sink.write()
    assert list(Row.objects.order_by("id").values_list("pod_uid", flat=True)) == ["u2", "u3", "u4"]
    assert Row.objects.get(pod_uid="u4").refused == {"too few free GPUs": 5}
    assert sink.lost == 2


@pytest.mark.django_db
def test_a_verdict_that_no_column_holds_is_cut_and_one_without_a_picture_is_kept():
    sink = KeptVerdicts(make_cluster().pk)
    top = (TopNode("n" * 300, 10, 1.23456, (ScorePart("packing", 1.23456, "for 1 of 8"),)),)
    sink.keep(Verdict("bind", 1.0, "u", "ml/p", "", float("inf"), top=top, note="x" * 900, node="n" * 300))
    sink.write()
    row = Row.objects.get()
    assert (row.picture_age_seconds, len(row.note), len(row.node)) == (None, 500, 253)
    assert row.top[0]["parts"] == [{"name": "packing", "points": 1.235, "words": "for 1 of 8"}]


@pytest.mark.django_db
def test_a_backslash_before_u0000_is_text_and_spoils_no_batch():
    """A pod's own words (a gang's name in an annotation) come into the sentences."""
    sink = KeptVerdicts(make_cluster().pk)
    sink.keep(verdict(1, refused={"the gang ml/\\u0000 has not been read yet": 1}, note="a\0b\\\0"))
    sink.keep(verdict(2))
    sink.write()
    first, _ = Row.objects.order_by("id")
    assert (first.refused, first.note) == ({"the gang ml/\\u0000 has not been read yet": 1}, "ab\\")


class Racing:
    """An extender that is asked for its age in a bad moment."""

    def __init__(self):
        self.asked = 0

    def age(self):
        self.asked += 1
        if self.asked == 1:
            raise IndexError("deque index out of range")
        return 1.5


@pytest.mark.django_db(transaction=True)
def test_the_thread_that_reads_holds_outlives_whatever_goes_wrong_once(monkeypatch):
    monkeypatch.setattr(keeping, "ROUND_SECONDS", 0.01)
    monkeypatch.setattr(keeping, "BEAT_SECONDS", 0.0)
    keeper, loop = keeping.Keeper(cluster := make_cluster()), asyncio.new_event_loop()
    thread = threading.Thread(target=keeper._run, args=(Racing(), loop), daemon=True)
    thread.start()
    try:
        wait_until(lambda: ExtenderBeat.objects.filter(cluster=cluster, picture_age_seconds=1.5).exists())
    finally:
        keeper._ended.set()
        thread.join(10)
        loop.close()


def test_what_a_policy_may_say_is_what_the_extender_knows():
    assert set(states.Scoring.values) == set(POLICIES)
    assert set(states.WhenStale.values) == {str(one) for one in WhenStale}
