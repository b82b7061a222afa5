"""Every new snapshot is measured once; the trend is the row of reports."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.fragmentation.models import Report
from apps.fragmentation.queries import latest_report, series
from apps.fragmentation.services import measure_snapshot
from apps.fragmentation.tasks import measure_snapshots
from tests.plans.situations import make_cluster, node, picture, pod, see

pytestmark = pytest.mark.django_db


def test_a_report_holds_the_measure_of_its_snapshot():
    cluster = make_cluster()
    row = see(cluster, picture(nodes=[node("node-a")], pods=[pod("lora", "node-a", 5)]))
    report = measure_snapshot(snapshot_id=row.pk)
    assert (report.idle_milli, report.total_milli) == (3000, 8000)
    # The one kind of pod that runs wants 5 GPUs; 3 are left, so all that is idle is of no use to it.
    assert report.fragmentation_milli == 3000
    assert report.measured_at == row.taken_at
    assert report.body["by_cause"]["lacks_gpu"] == 3000
    assert measure_snapshot(snapshot_id=row.pk) == report
    assert latest_report(cluster) == report


def test_the_timer_measures_every_snapshot_once():
    east, west, quiet = make_cluster("east"), make_cluster("west"), make_cluster("quiet")
    rows = [see(east), see(west), see(east, picture(pods=[]))]
    measure_snapshots()
    measure_snapshots()
    assert set(Report.objects.values_list("snapshot_id", flat=True)) == {row.pk for row in rows}
    late = see(east)
    measure_snapshots()
    assert latest_report(east).snapshot_id == late.pk
    assert latest_report(quiet) is None


def test_the_trend_begins_where_it_is_asked_to():
    cluster = make_cluster()
    old = see(cluster)
    measure_snapshots()
    new = see(cluster, picture(pods=[]))
    measure_snapshots()
    Report.objects.filter(snapshot_id=old.pk).update(measured_at=timezone.now() - timedelta(hours=5))
    assert [one.snapshot_id for one in series(cluster, timezone.now() - timedelta(hours=1))] == [new.pk]
    assert [one.snapshot_id for one in series(cluster, timezone.now() - timedelta(hours=9))] == [
        old.pk,
        new.pk,
    ]
