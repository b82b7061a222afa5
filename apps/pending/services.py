"""Keeps how long pods with devices waited, started and ran, snapshot by snapshot, for some days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import open_snapshot
from apps.pending.models import Noted, Stay
from apps.planner.inventory import Pod
from apps.planner.run_lengths import kind_of_run, shape_of_pod
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.tenants import tenant_of, wants_devices
from apps.planner.workload import FIXED_OWNERS

MOST_STAYS = 200_000
"""Of one cluster; past that the oldest ended ones go."""
BATCH = 1000
OUTCOMES = {"Succeeded": Stay.Outcome.SUCCEEDED, "Failed": Stay.Outcome.FAILED}
CHANGING = ("placed_at", "ready_at", "node", "ended_at", "outcome")


@dataclass(frozen=True, slots=True)
class Moments:
    """What may change of a stay."""

    placed_at: datetime | None
    ready_at: datetime | None
    node: str
    ended_at: datetime | None
    outcome: str


def follow_snapshot(snapshot_id: int) -> None:
    """Write what a snapshot tells of its pods; an older one than was noted last tells nothing any more."""
    row = Snapshot.objects.select_related("cluster").get(pk=snapshot_id)
    picture = open_snapshot(row) if row.cluster.is_live else None
    # Where pods cannot be read, none of them is gone.
    if picture is not None and not picture.cannot_read("pods"):
        note_stays(cluster=row.cluster, snapshot_id=row.pk, picture=picture)


def note_stays(*, cluster: Cluster, snapshot_id: int, picture: Picture) -> int:
    """How many rows were written. One transaction, in which nobody else writes stays of this cluster."""
    Noted.objects.get_or_create(cluster=cluster)
    with transaction.atomic():
        noted = Noted.objects.select_for_update(no_key=True).get(cluster=cluster)
        if noted.snapshot_id >= snapshot_id:
            return 0
        count = _write(cluster, picture)
        noted.snapshot_id = snapshot_id
        noted.save(update_fields=["snapshot_id"])
    return count


def _write(cluster: Cluster, picture: Picture) -> int:
    taken_at = datetime.fromtimestamp(picture.taken_at, UTC)
    pods = {pod.uid[:100]: pod for pod in picture.pods.values() if _is_told_of(pod)}
    rows = Stay.objects.filter(cluster=cluster)
    open_rows = {one.pod_uid: one for one in rows.filter(ended_at=None).only("pod_uid", *CHANGING)}
    ended = set(rows.filter(pod_uid__in=pods.keys() - open_rows.keys()).values_list("pod_uid", flat=True))
    new = [
        _as_stay(cluster, picture, pod, taken_at)
        for uid, pod in pods.items()
        if uid not in open_rows and uid not in ended
    ]
    changed = []
    for uid, one in open_rows.items():
        now = _moments(pods[uid], one, taken_at) if uid in pods else _gone(one, taken_at)
        if any(getattr(one, name) != getattr(now, name) for name in CHANGING):
            for name in CHANGING:
                setattr(one, name, getattr(now, name))
            changed.append(one)
    Stay.objects.bulk_create(new, batch_size=BATCH, ignore_conflicts=True)
    Stay.objects.bulk_update(changed, CHANGING, batch_size=BATCH)
    return len(new) + len(changed)


def _is_told_of(pod: Pod) -> bool:
    """Holds of ours, placeholders of schedulers and what comes with a node wait for nothing."""
    return wants_devices(pod) and not (pod.hold or pod.reservation or pod.owner_kind in FIXED_OWNERS)


def _as_stay(cluster: Cluster, picture: Picture, pod: Pod, taken_at: datetime) -> Stay:
    asked = _moment(pod.created_at) if pod.created_at > 0 else taken_at
    stay = Stay(
        cluster=cluster,
        pod_uid=pod.uid[:100],
        workload=(pod.gang or pod.key)[:520],
        kind=kind_of_run(picture, pod)[:600],
        queue=tenant_of(picture, pod).words[:320],
        shape=shape_of_pod(pod)[:200],
        image=pod.image[:300],
        asked_at=min(asked or taken_at, taken_at),
    )
    now = _moments(pod, stay, taken_at)
    for name in CHANGING:
        setattr(stay, name, getattr(now, name))
    return stay


def _moments(pod: Pod, known: Stay, taken_at: datetime) -> Moments:
    """Times that the pod tells itself are exact; others are those of the snapshot that showed them first."""
    placed = known.placed_at
    if placed is None and pod.node_name:
        placed = _moment(pod.scheduled_at) or _moment(pod.started_at) or taken_at
    ready = known.ready_at
    if ready is None and pod.ready:
        ready = _moment(pod.ready_at) or taken_at
    outcome = OUTCOMES.get(pod.phase, Stay.Outcome.OPEN)
    ended = (_moment(pod.finished_at) or taken_at) if outcome else None
    return Moments(placed, ready, pod.node_name[:253], ended, outcome)


def _gone(known: Stay, taken_at: datetime) -> Moments:
    return Moments(known.placed_at, known.ready_at, known.node, taken_at, Stay.Outcome.GONE)


def _moment(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def drop_old_stays(*, cluster_id: int) -> int:
    """What ended longer ago than is kept, and of a vast number the oldest; how many rows that were."""
    ended = Stay.objects.filter(cluster_id=cluster_id, ended_at__isnull=False)
    before = timezone.now() - timedelta(days=settings.QUEUE_HISTORY_DAYS)
    count, _ = ended.filter(ended_at__lte=before).delete()
    beyond = (
        ended.order_by("-ended_at").values_list("ended_at", flat=True)[MOST_STAYS : MOST_STAYS + 1].first()
    )
    if beyond is not None:
        more, _ = ended.filter(ended_at__lte=beyond).delete()
        count += more
    return count
