"""Measures snapshots: one report per snapshot, whoever asks and however often."""

from __future__ import annotations

from django.db import transaction

from apps.clusters.models import Snapshot
from apps.clusters.notices import publish_on_commit
from apps.clusters.queries import open_snapshot
from apps.fragmentation.models import Report
from apps.fragmentation.queries import report_of
from apps.planner.fragmentation import measure, report_to_dict


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
                "fragmentation_milli": found.fragmentation_milli,
                "idle_milli": found.idle_milli,
                "total_milli": found.total_milli,
                "body": report_to_dict(found),
            },
        )
        if is_new:
            publish_on_commit(row.cluster.name, "fragmentation", {"snapshot": row.pk, "report": report.pk})
    return report
