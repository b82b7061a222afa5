"""Each newest snapshot is measured once, whoever asks and however often."""

import threading
from datetime import UTC, datetime

import pytest
from django.db import connection

from apps.clusters import services as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.fragmentation import queries, services, tasks
from apps.fragmentation.models import Report
from apps.kube.gateway import NODES, PODS
from apps.kube.translate import build_snapshot
from tests.kube.objects import node, pod


def record(cluster, *pods, taken_at=1000.0):
    nodes = [node("node-a"), node("node-b")]
    snapshot = build_snapshot(cluster.name, {NODES: nodes, PODS: pods}, taken_at)
    return clusters.record_snapshot(cluster_id=cluster.pk, snapshot=snapshot)


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(name="lab", server="https://127.0.0.1:1")


def test_a_report_tells_the_measure(cluster):
    row = record(cluster, pod("a", gpus=3, on="node-a"), pod("waits", gpus=8))
    report = services.measure_snapshot(snapshot_id=row.pk)
    assert (report.total_milli, report.idle_milli) == (16_000, 13_000)
    assert report.fragmentation_milli > 0
    assert report.body["free_nodes"] == {"8": 1}
    assert queries.latest_report(cluster) == report
    assert queries.report_of(row) == report


def test_measuring_twice_changes_nothing(cluster):
    row = record(cluster, pod("a", on="node-a"))
    first = services.measure_snapshot(snapshot_id=row.pk)
    assert services.measure_snapshot(snapshot_id=row.pk) == first
    assert Report.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_make_one_report():
    cluster = Cluster.objects.create(name="lab", server="https://127.0.0.1:1")
    row = record(cluster, pod("a", on="node-a"))
    gate, failures = threading.Barrier(4), []

    def measure():
        try:
            gate.wait(10)
            services.measure_snapshot(snapshot_id=row.pk)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    workers = [threading.Thread(target=measure) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert failures == []
    assert Report.objects.count() == 1


def test_the_task_measures_every_snapshot_of_each_watched_cluster_the_newest_first(cluster):
    shop = Cluster.objects.create(name="shop", server="https://127.0.0.1:2")
    closed = Cluster.objects.create(name="closed", server="https://127.0.0.1:3", is_active=False)
    missed = record(cluster, taken_at=1.0)
    newest = record(cluster, pod("a", on="node-a"), taken_at=2.0)
    other = record(shop)
    record(closed)
    assert queries.unmeasured_snapshot_ids() == [newest.pk, other.pk, missed.pk]
    tasks.measure_snapshots()
    assert set(Report.objects.values_list("snapshot_id", flat=True)) == {missed.pk, newest.pk, other.pk}
    assert queries.unmeasured_snapshot_ids() == []


def test_a_picture_that_cannot_be_measured_holds_up_no_other(cluster):
    shop = Cluster.objects.create(name="shop", server="https://127.0.0.1:2")
    broken = record(cluster)
    Snapshot.objects.filter(pk=broken.pk).update(body=b"broken", digest="another")
    good = record(shop)
    tasks.measure_snapshots()
    assert list(Report.objects.values_list("snapshot_id", flat=True)) == [good.pk]


def test_the_trend_outlives_its_snapshots(cluster):
    rows = [record(cluster, pod(f"p{at}", on="node-a"), taken_at=float(at)) for at in (10, 20, 30)]
    for row in rows:
        services.measure_snapshot(snapshot_id=row.pk)
    Snapshot.objects.all().delete()
    since = datetime.fromtimestamp(15, UTC)
    assert [report.snapshot_id for report in queries.series(cluster, since)] == [rows[1].pk, rows[2].pk]


def test_a_report_lasts_as_long_as_its_snapshot_is_seen_to_be_true(cluster):
    row = record(cluster, pod("a", on="node-a"), taken_at=100.0)
    tasks.measure_snapshots()
    record(cluster, pod("a", on="node-a"), taken_at=160.0)
    tasks.measure_snapshots()
    report = Report.objects.get()
    assert (report.snapshot_id, report.measured_at.timestamp()) == (row.pk, 100.0)
    assert report.seen_until.timestamp() == 160.0


def test_the_list_per_node_goes_with_the_snapshot_and_the_sums_stay(cluster):
    rows = [record(cluster, pod(f"p{at}", on="node-a"), taken_at=float(at)) for at in (10, 20)]
    tasks.measure_snapshots()
    before = queries.report_of(rows[0]).body
    assert [entry["name"] for entry in before["nodes"]] == ["node-a", "node-b"]
    Snapshot.objects.filter(pk=rows[0].pk).delete()
    services.follow_snapshots(cluster_id=cluster.pk)
    old, new = Report.objects.order_by("measured_at")
    assert old.body == {key: value for key, value in before.items() if key != "nodes"}
    assert "nodes" in new.body
