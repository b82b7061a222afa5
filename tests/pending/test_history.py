"""How long pods waited, started and ran: one row per pod, written snapshot by snapshot, read as trends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.clusters.models import Cluster
from apps.clusters.services import record_snapshot
from apps.pending import history, services
from apps.pending.models import Stay
from apps.planner.snapshot import Snapshot
from tests.drawing import cluster as drawn
from tests.drawing import running, waiting

pytestmark = pytest.mark.django_db
BEGIN = datetime(2026, 11, 30, 10, tzinfo=UTC)


def at(seconds):
    return BEGIN.timestamp() + seconds


@pytest.fixture
def lab():
    return Cluster.objects.create(name="lab")


class Watch:
    """Snapshots of one cluster, one after the other."""

    def __init__(self, cluster):
        self.cluster, self.number = cluster, 0

    def see(self, seconds, *pods, number=0):
        self.number = number or self.number + 1
        picture: Snapshot = drawn("a1 ....\na2 ....", pods, taken_at=at(seconds))
        return services.note_stays(cluster=self.cluster, snapshot_id=self.number, picture=picture)


def asked(seconds=0, **facts):
    (pod,) = waiting("ml/train-7", gpus=2, created_at=at(seconds), image="reg/x:1", **facts)
    return pod


def placed(pod, seconds, *, node="a1", ready=None, **facts):
    return replace(
        pod,
        **{
            **{"node_name": node, "phase": "Running", "scheduled_at": at(seconds)},
            **{"ready": ready is not None, "ready_at": at(ready) if ready is not None else None, **facts},
        },
    )


def test_a_pod_is_followed_from_its_request_to_its_end(lab):
    watch, pod = Watch(lab), asked()
    watch.see(5, pod)
    stay = Stay.objects.get()
    assert (stay.queue, stay.shape, stay.kind) == ("namespace ml", "2 GPUs", "ml/train, 2 GPUs")
    assert (stay.asked_at, stay.placed_at) == (BEGIN, None)
    watch.see(300, placed(pod, 240))
    watch.see(400, placed(pod, 240, ready=290))
    watch.see(500, placed(pod, 240, ready=290), number=2)  # an older snapshot, measured late
    done = placed(pod, 240, phase="Succeeded", finished_at=at(3840))
    assert watch.see(4000, done, number=9) == 1
    stay.refresh_from_db()
    assert (stay.placed_at, stay.ready_at) == (BEGIN + timedelta(seconds=240), BEGIN + timedelta(seconds=290))
    assert (stay.ended_at, stay.outcome) == (BEGIN + timedelta(seconds=3840), "succeeded")
    assert watch.see(4100, done) == 0
    assert history.known_runs(lab) == {"ml/train, 2 GPUs": (3600.0,)}
    assert history.known_starts(lab) == {("reg/x:1", "a1"): (50.0,)}


def test_a_deleted_pod_is_no_run_and_who_never_got_a_node_left(lab):
    watch, pod = Watch(lab), asked()
    other = replace(asked(), uid="uid-other")
    watch.see(5, placed(pod, 3), other)
    watch.see(50)
    assert {one.outcome for one in Stay.objects.all()} == {"gone"}
    assert history.known_runs(lab) == {}
    (trend,) = history.wait_trends(lab, span="1h", until=BEGIN + timedelta(minutes=30))
    assert (trend.started, trend.left, trend.p50_seconds) == (1, 1, 3.0)


def test_what_comes_with_nodes_or_holds_room_for_others_is_left_out(lab):
    daemon = running("agent", "a1", gpus=1, owner_kind="DaemonSet")
    paper = running("paper", "a1", gpus=1, hold=True)
    assert Watch(lab).see(5, daemon, paper, running("web", "a1")) == 0


def test_waits_are_told_by_queue_and_shape_with_the_median_and_the_slow_tenth(lab):
    for number in range(20):
        begin = BEGIN + timedelta(minutes=10 * (number % 2))
        wait = timedelta(seconds=10 * (number + 1))
        queue = "queue blue" if number < 10 else "namespace ml"
        Stay.objects.create(
            **{"cluster": lab, "pod_uid": f"u{number}", "queue": queue, "shape": "8 GPUs"},
            workload=f"ml/gang-{number // 5}",
            **{"asked_at": begin - wait, "placed_at": begin},
        )
    until = BEGIN + timedelta(minutes=30)
    ml, blue = history.wait_trends(lab, span="1h", until=until)
    assert (blue.queue, blue.started, blue.p50_seconds, blue.p90_seconds) == ("queue blue", 10, 50.0, 90.0)
    assert blue.workloads == 2
    # A start between two stretches belongs to the earlier one: 10:00 ends the twelfth of the 24.
    assert [at for at, point in enumerate(blue.points) if point.started == 5] == [11, 15]
    assert sum(point.started for point in blue.points) == 10
    assert (ml.p50_seconds, ml.p90_seconds) == (150.0, 190.0)
    assert history.wait_trends(lab, span="1h", until=until, queue="queue red") == []


def test_old_stays_go_and_open_ones_stay(lab, settings, monkeypatch):
    settings.QUEUE_HISTORY_DAYS = 7
    now = datetime.now(UTC)
    for days in (0, 1, 2, 30):
        ended = now - timedelta(days=days, minutes=1) if days else None
        Stay.objects.create(
            cluster=lab, pod_uid=f"u{days}", asked_at=now - timedelta(days=60), ended_at=ended
        )
    assert services.drop_old_stays(cluster_id=lab.pk) == 1
    monkeypatch.setattr(services, "MOST_STAYS", 1)
    assert services.drop_old_stays(cluster_id=lab.pk) == 1
    assert {one.pod_uid for one in Stay.objects.all()} == {"u0", "u1"}


def test_a_new_snapshot_is_followed_and_a_dump_is_not(lab):
    row = record_snapshot(cluster_id=lab.pk, snapshot=drawn("a1 ....", [asked()], taken_at=at(5)))
    services.follow_snapshot(row.pk)
    assert Stay.objects.count() == 1
    dump = Cluster.objects.create(name="dump", source=Cluster.Source.DUMP)
    row = record_snapshot(cluster_id=dump.pk, snapshot=drawn("a1 ....", [asked()], taken_at=at(5)))
    services.follow_snapshot(row.pk)
    assert Stay.objects.filter(cluster=dump).count() == 0
