"""Measures snapshots: one report per snapshot, whoever asks and however often; and keeps the trend."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, Func, JSONField, Value

from apps.clusters.models import Cluster, Snapshot
from apps.clusters.notices import publish_on_commit
from apps.clusters.queries import open_snapshot
from apps.fragmentation.models import Report
from apps.fragmentation.queries import RECENT, report_of
from apps.planner.fragmentation import measure, report_to_dict

LOOK_BACK = 200
"""Reports past the oldest snapshot that are looked through for a list that nobody needs any more."""


def measure_snapshot(*, snapshot_id: int) -> Report:
    """The report of a snapshot, measured now if it was not before. Raises Snapshot.DoesNotExist."""
    row = Snapshot.objects.select_related("cluster").get(pk=snapshot_id)
    known = report_of(row)
    if known is not None:
        return known
    found = measure(open_snapshot(row))
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
                "body": report_to_dict(found),
            },
        )
        if is_new:
            publish_on_commit(row.cluster.name, "fragmentation", {"snapshot": row.pk, "report": report.pk})
    return report


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


def _drop_nodes(cluster_id: int, oldest: int) -> None:
    past = Report.objects.filter(cluster_id=cluster_id, snapshot_id__lt=oldest).order_by("-snapshot_id")
    last_ones = list(past.values_list("pk", flat=True)[:LOOK_BACK])
    without = Func(F("body"), Value("nodes"), template="(%(expressions)s)", arg_joiner=" - ")
    without.output_field = JSONField()
    Report.objects.filter(pk__in=last_ones, body__has_key="nodes").update(body=without)
