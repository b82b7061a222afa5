"""Verdicts on their way to rows: no answer waits for the database, and what is lost is counted."""

import pytest

from apps.placing import states
from apps.placing.models import Verdict as Row
from apps.planner.whatif_scores import ScorePart
from apps.scheduling.extender.kept_verdicts import KeptVerdicts
from apps.scheduling.extender.options import WhenStale
from apps.scheduling.extender.policies import POLICIES
from apps.scheduling.extender.verdicts import TopNode, Verdict
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


def test_what_a_policy_may_say_is_what_the_extender_knows():
    assert set(states.Scoring.values) == set(POLICIES)
    assert set(states.WhenStale.values) == {str(one) for one in WhenStale}
