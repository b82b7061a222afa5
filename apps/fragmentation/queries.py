"""Every read of fragmentation reports."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from apps.clusters.models import Cluster, Snapshot
from apps.fragmentation.models import Report

RECENT = 20
"""So many snapshots back are looked at again. Measuring takes a part of a second, so it seldom needs one."""


def latest_report(cluster: Cluster) -> Report | None:
    return Report.objects.filter(cluster=cluster).order_by("-measured_at").first()


def report_of(snapshot: Snapshot) -> Report | None:
    """The measure of exactly this snapshot, if it has been taken."""
    return Report.objects.filter(cluster_id=snapshot.cluster_id, snapshot_id=snapshot.pk).first()


def series(cluster: Cluster, since: datetime) -> QuerySet[Report]:
    """The trend, oldest first."""
    return Report.objects.filter(cluster=cluster, measured_at__gte=since).order_by("measured_at")


def unmeasured_snapshot_ids() -> list[int]:
    """What is still to be measured: the newest snapshot of each watched cluster first, then the ones just
    before it that came faster than they were measured."""
    newest, missed = [], []
    for cluster in Cluster.objects.filter(is_active=True).only("pk"):
        recent = list(
            Snapshot.objects.filter(cluster=cluster).order_by("-id").values_list("id", flat=True)[:RECENT]
        )
        known = Report.objects.filter(cluster=cluster, snapshot_id__in=recent)
        measured = set(known.values_list("snapshot_id", flat=True))
        newest += [pk for pk in recent[:1] if pk not in measured]
        missed += [pk for pk in recent[1:] if pk not in measured]
    return newest + sorted(missed, reverse=True)
