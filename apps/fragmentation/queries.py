"""Every read of fragmentation reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Count, QuerySet

from apps.clusters.models import Cluster, Snapshot
from apps.fragmentation.models import Report, Request
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.workload import Spec, Workload, count_specs, live_workload, most_popular, requests_in

RECENT = 20
"""So many snapshots back are looked at again. Measuring takes a part of a second, so it seldom needs one."""


WINDOW, RUNNING, DUMP = "window", "running", "dump"
"""What is wanted, by where it was found: requests of the trailing window, or (there are none) what runs, or
what runs and waits in a dump, which knows no requests."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The target workload of one picture. basis: WINDOW, RUNNING or DUMP. requests: pods asked for in the
    window; pending: pods that have been waiting for longer than it."""

    workload: Workload
    basis: str
    requests: int
    pending: int


def window_at(moment: datetime) -> datetime:
    """Where the trailing window that ends then begins."""
    return moment - timedelta(hours=settings.FRAGMENTATION_WINDOW_HOURS)


def wanted_at(cluster: Cluster, picture: Picture) -> Wanted:
    """The trailing window of requests plus what is pending; what runs, where nobody asked for a GPU."""
    if not cluster.is_live:
        return Wanted(live_workload(picture), DUMP, 0, 0)
    until = datetime.fromtimestamp(picture.taken_at, UTC)
    begin = window_at(until)
    counts = Counter[Spec]()
    rows = Request.objects.filter(cluster=cluster, asked_at__gt=begin, asked_at__lte=until)
    for *shape, number in (
        rows.values_list("cpu", "milli", "gpus", "allowed_models").annotate(Count("pk")).order_by()
    ):
        counts[Spec(*shape)] += number
    requests = counts.total()
    counts += count_specs(
        pod for pod, asked in requests_in(picture) if pod.is_pending and asked <= begin.timestamp()
    )
    if not any(spec.gpus for spec in counts):
        return Wanted(live_workload(picture), RUNNING, requests, counts.total() - requests)
    return Wanted(most_popular(counts), WINDOW, requests, counts.total() - requests)


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
