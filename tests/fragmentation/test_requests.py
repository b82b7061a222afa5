"""What fragmentation is measured against: the trailing window of requests, and what is pending."""

import time
from datetime import timedelta

import pytest

from apps.fragmentation import services
from apps.fragmentation.models import Report, Request
from apps.fragmentation.services import measure_snapshot
from apps.fragmentation.tasks import measure_snapshots
from tests.plans.situations import make_cluster, node, picture, pod, see

pytestmark = pytest.mark.django_db
HOUR = 3600


def asked(name, gpus, hours_ago, where="", **facts):
    phase = {} if where else {"phase": "Pending", "ready": False, "started_at": None}
    return pod(name, where, gpus, created_at=time.time() - hours_ago * HOUR, **{**phase, **facts})


def wanted_of(cluster, *pods):
    row = see(cluster, picture(nodes=[node("node-a")], pods=list(pods)))
    report = measure_snapshot(snapshot_id=row.pk)
    return report.body["wanted"], report.body["weight_total"]


def test_requests_of_the_window_count_whether_or_not_they_still_run():
    cluster = make_cluster()
    first = wanted_of(cluster, asked("a", 1, 2, "node-a"), asked("b", 2, 1, "node-a"))
    second = wanted_of(cluster, asked("c", 2, 0.1, "node-a"))

    assert first == (
        {"basis": "window", "window_hours": 24, "requests": 2, "pending_longer": 0, "shapes": 2},
        2,
    )
    assert (second[0]["requests"], second[1]) == (3, 3)


def test_what_runs_for_longer_than_the_window_is_no_request_but_what_waits_for_longer_is():
    wanted, weight = wanted_of(
        make_cluster(),
        asked("runs", 1, 30, "node-a"),
        asked("waits", 8, 30),
        asked("new", 2, 1),
        asked("done", 4, 2, "node-a", phase="Succeeded"),
    )

    assert (wanted["basis"], wanted["requests"], wanted["pending_longer"], weight) == ("window", 2, 1, 3)


def test_where_nobody_asked_for_a_gpu_lately_what_runs_is_wanted():
    wanted, weight = wanted_of(
        make_cluster(), asked("runs", 1, 30, "node-a"), asked("web", 0, 1, "node-a", requests={"cpu": 10})
    )

    assert (wanted["basis"], wanted["requests"], weight) == ("running", 1, 2)


def test_the_window_can_be_set(settings):
    settings.FRAGMENTATION_WINDOW_HOURS = 0.5
    wanted, _ = wanted_of(make_cluster(), asked("old", 1, 1, "node-a"), asked("new", 1, 0.2, "node-a"))

    assert (wanted["requests"], wanted["window_hours"]) == (1, 0.5)


def test_what_a_migration_created_again_or_a_node_brings_along_is_no_request():
    wanted, _ = wanted_of(
        make_cluster(),
        asked("own", 1, 1, "node-a"),
        asked("moved", 1, 1, "node-a", steering="m1"),
        asked("agent", 1, 1, "node-a", owner_kind="DaemonSet"),
        asked("hold", 1, 1, hold=True),
    )

    assert wanted["requests"] == 1


def test_each_pod_is_counted_once_and_clusters_are_apart():
    east, west = make_cluster("east"), make_cluster("west")
    for cluster in (east, west, east):
        see(cluster, picture(nodes=[node("node-a")], pods=[asked("a", 1, 1, "node-a")]))
        measure_snapshots()

    assert Request.objects.filter(cluster=east).count() == Request.objects.filter(cluster=west).count() == 1
    assert {report.body["wanted"]["requests"] for report in Report.objects.all()} == {1}


def test_a_pod_whose_creation_nobody_tells_counts_from_when_it_is_first_seen():
    wanted, _ = wanted_of(make_cluster(), pod("a", "node-a", 1))

    assert (wanted["basis"], wanted["requests"]) == ("window", 1)


def test_requests_that_no_window_reaches_go_and_so_do_the_oldest_of_too_many(monkeypatch):
    cluster = make_cluster()
    wanted_of(cluster, *(asked(f"p{hours}", 1, hours, "node-a") for hours in (1, 2, 3, 4)))
    Request.objects.filter(pod_uid="uid-p4").update(
        asked_at=Report.objects.get().measured_at - timedelta(hours=30)
    )
    services.drop_old_requests(cluster_id=cluster.pk)
    assert set(Request.objects.values_list("pod_uid", flat=True)) == {"uid-p1", "uid-p2", "uid-p3"}

    monkeypatch.setattr(services, "MOST_REQUESTS", 2)
    services.drop_old_requests(cluster_id=cluster.pk)
    assert set(Request.objects.values_list("pod_uid", flat=True)) == {"uid-p1", "uid-p2"}


def test_demands_beyond_all_measure_are_kept_as_more_than_any_node_has():
    vast = asked("vast", 1, 1, requests={"cpu": 10**30, "nvidia.com/gpu": 10**15})
    wanted, weight = wanted_of(make_cluster(), vast)

    assert (wanted["requests"], weight) == (1, 1)


def test_a_dump_is_measured_against_its_own_pods():
    cluster = make_cluster()
    cluster.source = cluster.Source.DUMP
    cluster.save()
    wanted, weight = wanted_of(cluster, asked("old", 1, 90, "node-a"), asked("waits", 2, 1))

    assert (wanted["basis"], weight, Request.objects.count()) == ("dump", 2, 0)
