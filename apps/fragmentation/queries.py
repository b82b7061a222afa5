"""Every read of fragmentation reports."""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from apps.clusters.models import Cluster, Snapshot
from apps.fragmentation.models import Report


def latest_report(cluster: Cluster) -> Report | None:
    return Report.objects.filter(cluster=cluster).order_by("-measured_at").first()


def report_of(snapshot: Snapshot) -> Report | None:
    """The measure of exactly this snapshot, if it has been taken."""
    return Report.objects.filter(cluster_id=snapshot.cluster_id, snapshot_id=snapshot.pk).first()


def series(cluster: Cluster, since: datetime) -> QuerySet[Report]:
    """The trend, oldest first."""
    return Report.objects.filter(cluster=cluster, measured_at__gte=since).order_by("measured_at")


def unmeasured_snapshot_ids() -> list[int]:
    """The newest snapshot of each watched cluster, unless it has been measured. Older ones are passed over:
    a trend needs no point for every second."""
    found = []
    for cluster in Cluster.objects.filter(is_active=True).only("pk"):
        newest = Snapshot.objects.filter(cluster=cluster).order_by("-id").values_list("id", flat=True).first()
        if newest is not None and not Report.objects.filter(cluster=cluster, snapshot_id=newest).exists():
            found.append(newest)
    return found
