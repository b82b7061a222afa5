"""A long history in few points: peaks stay, gaps stay, scopes are told apart."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.clusters.models import Cluster
from apps.fragmentation import trends
from apps.fragmentation.models import Report
from apps.fragmentation.trends import Scope, thinned

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def part(lost=1000, gang=2, idle=8000):
    return {
        "fragmentation_milli": lost,
        "idle_milli": idle,
        "total_milli": 16_000,
        "by_cause": {"lacks_gpu": lost, "usable": idle - lost},
        "largest_gang": {"gpus_per_pod": 8, "link": "nvlink", "pods": gang},
    }


@pytest.fixture
def cluster():
    return Cluster.objects.create(name="lab", server="https://127.0.0.1:1")


def reports(cluster, *entries, lasting=60):
    """entries: (seconds from noon, body) each; every report was seen true for `lasting` seconds."""
    rows = [
        Report(
            cluster=cluster,
            snapshot_id=number,
            measured_at=NOON + timedelta(seconds=at),
            seen_until=NOON + timedelta(seconds=at + lasting),
            fragmentation_milli=body["fragmentation_milli"],
            idle_milli=body["idle_milli"],
            total_milli=body["total_milli"],
            body=body,
        )
        for number, (at, body) in enumerate(entries, 1)
    ]
    return Report.objects.bulk_create(rows)


def hours(count):
    return {"since": NOON, "until": NOON + timedelta(hours=count)}


def test_a_month_of_reports_becomes_few_points_that_keep_every_peak(cluster):
    bodies = [part(lost=1000 + at % 7) for at in range(5000)]
    bodies[1234] = part(lost=7777)
    bodies[2345] = part(lost=1)
    bodies[3456] = part(gang=9)
    bodies[4567] = part(gang=0)
    reports(cluster, *((at * 518, body) for at, body in enumerate(bodies)), lasting=518)
    points = thinned(cluster, **hours(24 * 30))
    assert 100 < len(points) <= 300
    assert {1, 1235, 2346, 3457, 4568, 5000} <= {point.snapshot_id for point in points}
    assert not any(point.after_gap for point in points)
    assert [point.measured_at for point in points] == sorted(point.measured_at for point in points)


def test_nothing_is_left_out_of_a_short_history(cluster):
    rows = reports(cluster, *((at * 60, part(lost=at)) for at in range(1, 40)))
    assert [point.report_id for point in thinned(cluster, **hours(1))] == [row.pk for row in rows]


def test_time_that_nobody_saw_is_a_gap_even_when_the_points_around_it_are_thinned(cluster):
    steady = [(at * 60, part()) for at in range(300)]
    reports(cluster, *(entry for entry in steady if not 6000 <= entry[0] < 8000))
    points = thinned(cluster, **hours(5))
    (after,) = [at for at, point in enumerate(points) if point.after_gap]
    assert points[after].measured_at == NOON + timedelta(seconds=8040)
    assert points[after - 1].seen_until == NOON + timedelta(seconds=6000)


def test_a_quiet_cluster_that_was_watched_has_no_gap(cluster):
    reports(cluster, (0, part()), (3000, part(lost=2000)), lasting=2990)
    assert [point.after_gap for point in thinned(cluster, **hours(1))] == [False, False]


def test_the_report_that_still_held_at_the_beginning_is_part_of_the_trend(cluster):
    reports(cluster, (-900, part(lost=1)), (-600, part(lost=2)), (600, part(lost=3)), lasting=1200)
    assert [point.fragmentation_milli for point in thinned(cluster, **hours(1))] == [2, 3]
    Report.objects.filter(snapshot_id=2).update(seen_until=NOON - timedelta(seconds=300))
    assert [point.fragmentation_milli for point in thinned(cluster, **hours(1))] == [3]


def test_pools_and_models_have_trends_of_their_own(cluster):
    body = part() | {
        "pools": {"4": part(lost=11), "a.b": part(lost=12)},
        "models": {"A100": part(lost=13)},
        "pools_by_model": {"4": {"A100": part(lost=14, gang=1)}},
    }
    reports(cluster, (0, part()), (60, body))
    for scope, lost in (
        (Scope(pool="4"), [11]),
        (Scope(pool="a.b"), [12]),
        (Scope(model="A100"), [13]),
        (Scope(pool="4", model="A100"), [14]),
        (Scope(pool="a.b", model="A100"), []),
        (Scope(pool="x' OR 1=1 --"), []),
        (Scope(), [1000, 1000]),
    ):
        assert [point.fragmentation_milli for point in thinned(cluster, scope=scope, **hours(1))] == lost
    assert trends.known_scopes(Report.objects.latest("pk")) == (["4", "a.b"], ["A100"])


def test_other_clusters_and_other_times_stay_out(cluster):
    shop = Cluster.objects.create(name="shop", server="https://127.0.0.1:2")
    reports(shop, (60, part()))
    reports(cluster, (7200, part()))
    assert thinned(cluster, **hours(1)) == []


@pytest.mark.parametrize("span", ["1h", "24h", "7d", "30d"])
def test_a_long_range_is_read_once_and_goes_on_with_every_report(cluster, span):
    reports(cluster, *((at * 600, part(lost=1000 + at)) for at in range(-30, 0)), lasting=600)
    late = NOON + timedelta(seconds=30)
    before = trends.trend_of(cluster, span, until=late)
    assert before == thinned(cluster, since=late - trends.RANGES[span], until=late)
    reports_after = Report.objects.order_by("-measured_at").first()
    Report.objects.filter(pk=reports_after.pk).update(seen_until=NOON + timedelta(seconds=20))
    Report.objects.create(
        cluster=cluster, snapshot_id=99, measured_at=NOON + timedelta(seconds=20),
        seen_until=NOON + timedelta(seconds=25), fragmentation_milli=5, idle_milli=8000, total_milli=16_000,
        body=part(lost=5),
    )  # fmt: skip
    after = trends.trend_of(cluster, span, until=late)
    assert (after[-1].snapshot_id, after[-1].fragmentation_milli) == (99, 5)
    assert after[-2].seen_until == NOON + timedelta(seconds=20)
    assert [point.report_id for point in after[:-1]] == [point.report_id for point in before]
    assert not any(point.after_gap for point in after)


def test_a_gap_across_the_last_tick_stays_a_gap(cluster):
    reports(cluster, (-50_000, part()), (-40_000, part()), (10, part()))
    points = trends.trend_of(cluster, "7d", until=NOON + timedelta(seconds=30))
    assert [point.after_gap for point in points] == [False, True, True]
