"""Clusters: when they were heard from, what forbids effects, what we hold, what waits, fragmentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from django.db.models import F, OuterRef, Subquery
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from apps.clusters.models import Cluster, Snapshot
from apps.executions.held.looking import held_of
from apps.executions.holdings import Held
from apps.executions.ledger import database_time
from apps.executions.models import ClusterHoldings, ClusterSafety
from apps.fragmentation.models import Report
from apps.plans.models import ClusterPolicy


def tell_watches() -> Iterator[Metric]:
    heard = _gauge("watch_last_heard_timestamp_seconds", "When the watcher last heard from the cluster.")
    shadow = _gauge("cluster_shadow", "1 where an admin has put the cluster into shadow mode.")
    live = Cluster.objects.filter(source=Cluster.Source.API, is_active=True)
    for name, at, is_shadow in live.values_list("name", "watched_at", "is_shadow"):
        if at is not None:
            heard.add_metric([name], at.timestamp())
        shadow.add_metric([name], int(is_shadow))
    yield heard
    yield shadow


def tell_switches() -> Iterator[Metric]:
    """Where it is off nothing is told, but the cluster's other switch or its policy has a row."""
    switch = _gauge(
        "kill_switch", "1 where a kill switch is on: the console's or the cluster's own.", "where"
    )
    for name, at in ClusterPolicy.objects.values_list("cluster__name", "stopped_at"):
        switch.add_metric([name, "console"], int(at is not None))
    for name, at in ClusterSafety.objects.values_list("cluster__name", "switch_since"):
        switch.add_metric([name, "cluster"], int(at is not None))
    yield switch


def sum_held() -> Iterator[Metric]:
    held = _gauge("held", "Traces of ours in the cluster at the last look.", "what", "standing")
    oldest = _gauge("held_oldest_seconds", "Age of the oldest of them.", "what", "standing")
    overdue = _gauge("held_overdue", "Traces of ours that are past their deadline.", "what", "standing")
    unread = _gauge("holdings_unread", "Kinds of traces that the credential may not list.")
    looked = _gauge("holdings_look_timestamp_seconds", "When what is held was last found.")
    now = database_time()
    for row in ClusterHoldings.objects.select_related("cluster").defer("cluster__credential"):
        name = row.cluster.name
        unread.add_metric([name], len(row.unread))
        if row.looked_at is not None:
            looked.add_metric([name], row.looked_at.timestamp())
        for (what, standing), group in _grouped(held_of(row)).items():
            labels = [name, what, standing]
            held.add_metric(labels, len(group))
            overdue.add_metric(labels, sum(one.deadline is not None and one.deadline < now for one in group))
            ages = [(now - one.since).total_seconds() for one in group if one.since is not None]
            if ages:
                oldest.add_metric(labels, max(ages))
    yield from (held, oldest, overdue, unread, looked)


def _grouped(found: Iterable[Held]) -> dict[tuple[str, str], list[Held]]:
    groups: dict[tuple[str, str], list[Held]] = defaultdict(list)
    for one in found:
        groups[one.what, one.standing].append(one)
    return groups


def read_queues() -> Iterator[Metric]:
    pods = _gauge("pending_pods", "Pods that wait for a node in the newest picture.")
    gpus = _gauge("pending_gpus", "GPUs that they ask for.")
    longest = _gauge("pending_longest_wait_seconds", "How long the oldest pod with GPUs among them waits.")
    counted = _gauge("gpus", "GPUs in the newest picture.", "standing")
    taken = _gauge("snapshot_timestamp_seconds", "When the newest picture was taken.")
    now = database_time()
    newest = Snapshot.objects.filter(cluster=OuterRef("cluster")).order_by("-pk").values("pk")[:1]
    rows = Snapshot.objects.filter(pk=Subquery(newest)).order_by()
    for name, at, summary in rows.values_list("cluster__name", "taken_at", "summary"):
        taken.add_metric([name], at.timestamp())
        pods.add_metric([name], summary.get("pending", 0))
        gpus.add_metric([name], summary.get("pending_gpus", 0))
        since = summary.get("pending_since")
        longest.add_metric([name], max(0.0, now.timestamp() - since) if since else 0)
        for standing, amount in summary.get("gpus", {}).items():
            counted.add_metric([name, standing], amount)
    yield from (taken, pods, gpus, longest, counted)


def read_fragmentation() -> Iterator[Metric]:
    lost = _gauge("fragmentation_gpus", "GPUs that cannot be used for what is asked, by FGD's measure.")
    idle = _gauge("idle_gpus", "GPUs that nobody holds, in the newest report.")
    total = _gauge("measured_gpus", "GPUs that the newest report measured.")
    stranded = _gauge("stranded_gpus", "Free GPUs that no wanted shape can use.")
    gang = _gauge("largest_gang_gpus", "GPUs of the largest gang that could start now.")
    measured = _gauge("fragmentation_timestamp_seconds", "When the newest report was measured.")
    newest = Report.objects.filter(cluster=OuterRef("cluster")).order_by("-measured_at").values("pk")[:1]
    rows = Report.objects.filter(pk=Subquery(newest)).order_by()
    found = rows.values(
        "fragmentation_milli",
        "idle_milli",
        "total_milli",
        "measured_at",
        name=F("cluster__name"),
        stranded=F("body__stranded_gpus"),
        pods=F("body__largest_gang__pods"),
        each=F("body__largest_gang__gpus_per_pod"),
    )
    for row in found:
        name = [row["name"]]
        lost.add_metric(name, row["fragmentation_milli"] / 1000)
        idle.add_metric(name, row["idle_milli"] / 1000)
        total.add_metric(name, row["total_milli"] / 1000)
        stranded.add_metric(name, row["stranded"] or 0)
        gang.add_metric(name, (row["pods"] or 0) * (row["each"] or 0))
        measured.add_metric(name, row["measured_at"].timestamp())
    yield from (lost, idle, total, stranded, gang, measured)


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gpu_defrag_{name}", words, labels=["cluster", *labels])
