"""Measures snapshots: one report per snapshot, whoever asks and however often; keeps the trend, and what was
asked for lately, which reports are measured against."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Func, JSONField, Value

from apps.clusters.models import Cluster, Snapshot
from apps.clusters.notices import publish_on_commit
from apps.clusters.queries import open_snapshot
from apps.fragmentation.models import Report, Request
from apps.fragmentation.queries import RECENT, Wanted, report_of, wanted_at, window_at
from apps.planner.fragmentation import measure, report_to_dict
from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.workload import requests_in, spec_of

UID_LENGTH = 100
LARGEST = 2**31 - 1
"""Millicores, or GPUs: more than any node has, and what a column holds."""
LATE = timedelta(hours=1)
KEPT_LONGER = timedelta(hours=1)
"""Past the window, for snapshots that are measured late."""
MOST_REQUESTS = 200_000
"""Of one cluster."""
LOOK_BACK = 200
"""Reports past the oldest snapshot that are looked through for a list that nobody needs any more."""


def measure_snapshot(*, snapshot_id: int) -> Report:
    """The report of a snapshot, measured now if it was not before. Raises Snapshot.DoesNotExist."""
    row = Snapshot.objects.select_related("cluster").get(pk=snapshot_id)
    known = report_of(row)
    if known is not None:
        return known
    picture = open_snapshot(row)
    if row.cluster.is_live:
        note_requests(cluster=row.cluster, picture=picture)
    wanted = wanted_at(row.cluster, picture)
    body = {**report_to_dict(found := measure(picture, wanted.workload)), "wanted": _wanted_to_dict(wanted)}
    with transaction.atomic():
        report, is_new = Report.objects.get_or_create(
            cluster=row.cluster,
            snapshot_id=row.pk,
            defaults={
                "measured_at": row.taken_at,
                "seen_until": row.taken_at,
                "fragmentation_milli": found.fragmentation_milli,
                "idle_milli": found.idle_milli,
                "total_milli": found.total_milli,
                "body": body,
            },
        )
        if is_new:
            publish_on_commit(row.cluster.name, "fragmentation", {"snapshot": row.pk, "report": report.pk})
    return report


def note_requests(*, cluster: Cluster, picture: Picture) -> int:
    """Keep what was asked for since the trailing window began and is not known yet; how many pods that is.

    A pod that is first seen more than LATE after others were asked for is not counted any more.
    """
    taken_at = datetime.fromtimestamp(picture.taken_at, UTC)
    known = Request.objects.filter(cluster=cluster)
    newest = known.order_by("-asked_at").values_list("asked_at", flat=True).first()
    since = max(window_at(taken_at), newest - LATE) if newest else window_at(taken_at)
    seen = set(known.filter(asked_at__gt=since).values_list("pod_uid", flat=True))
    found = [
        _as_request(cluster, pod, asked)
        for pod, asked in requests_in(picture)
        if asked > since.timestamp() and pod.uid[:UID_LENGTH] not in seen
    ]
    Request.objects.bulk_create(found[:MOST_REQUESTS], batch_size=2000, ignore_conflicts=True)
    return len(found)


def _as_request(cluster: Cluster, pod: Pod, asked: float) -> Request:
    spec = spec_of(pod)
    return Request(
        cluster=cluster,
        pod_uid=pod.uid[:UID_LENGTH],
        asked_at=datetime.fromtimestamp(asked, UTC),
        cpu=min(spec.cpu, LARGEST),
        milli=spec.milli,
        gpus=min(spec.gpus, LARGEST),
        allowed_models=spec.models,
    )


def _wanted_to_dict(wanted: Wanted) -> dict[str, object]:
    return {
        "basis": wanted.basis,
        "window_hours": settings.FRAGMENTATION_WINDOW_HOURS,
        "requests": wanted.requests,
        "pending_longer": wanted.pending,
        "shapes": len(wanted.workload.specs),
    }


def drop_old_requests(*, cluster_id: int) -> None:
    """What no window reaches any more, and of a vast number the oldest."""
    rows = Request.objects.filter(cluster_id=cluster_id)
    newest = rows.order_by("-asked_at").values_list("asked_at", flat=True)
    last = newest.first()
    if last is None:
        return
    rows.filter(asked_at__lte=window_at(last) - KEPT_LONGER).delete()
    beyond = newest[MOST_REQUESTS : MOST_REQUESTS + 1].first()
    if beyond is not None:
        rows.filter(asked_at__lte=beyond).delete()


def follow_snapshots(*, cluster_id: int) -> None:
    """Let reports last as long as their snapshots were seen to be true, and drop what outlived its use.

    A snapshot of a quiet cluster is touched, not repeated; its report goes on with it. The list per node
    belongs to the grid of a snapshot that can still be opened: past that it would only fill the disk.
    """
    rows = Snapshot.objects.filter(cluster_id=cluster_id)
    recent = dict(rows.order_by("-id").values_list("id", "taken_at")[:RECENT])
    for report in Report.objects.filter(cluster_id=cluster_id, snapshot_id__in=recent).defer("body"):
        seen = recent[report.snapshot_id]
        if report.seen_until < seen:
            Report.objects.filter(pk=report.pk, seen_until__lt=seen).update(seen_until=seen)
    oldest = rows.order_by("id").values_list("id", flat=True).first()
    if oldest is not None:
        _drop_nodes(cluster_id, oldest)


def follow_all_snapshots() -> None:
    for cluster_id in Cluster.objects.filter(is_active=True).values_list("pk", flat=True):
        follow_snapshots(cluster_id=cluster_id)
        drop_old_requests(cluster_id=cluster_id)


def _drop_nodes(cluster_id: int, oldest: int) -> None:
    past = Report.objects.filter(cluster_id=cluster_id, snapshot_id__lt=oldest).order_by("-snapshot_id")
    last_ones = list(past.values_list("pk", flat=True)[:LOOK_BACK])
    without = Func(F("body"), Value("nodes"), template="(%(expressions)s)", arg_joiner=" - ")
    without.output_field = JSONField()
    Report.objects.filter(pk__in=last_ones, body__has_key="nodes").update(body=without)
