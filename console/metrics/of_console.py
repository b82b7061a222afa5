"""The console itself: alerts, the ledger's chain, and whether beat, broker and workers are alive."""

from __future__ import annotations

from collections.abc import Iterator

import redis
from django.conf import settings
from django.db.models import Count, Max
from django_celery_beat.models import PeriodicTask
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from apps.alerts.models import Alert, ChainCheck
from apps.alerts.states import BAD, Kind
from apps.audit.models import AuditEntry

PATIENCE_SECONDS = 1


def count_alerts() -> Iterator[Metric]:
    """Every kind of the console is told also where none is open; cluster is "" for those of the console."""
    firing = GaugeMetricFamily(
        "gpu_defrag_alerts", "Open alerts by kind.", labels=["cluster", "kind", "severity"]
    )
    safe = GaugeMetricFamily(
        "gpu_defrag_safe_mode", "1 where a cluster is newer than this database.", labels=["cluster"]
    )
    rows = Alert.objects.filter(cleared_at=None).order_by().values_list("cluster__name", "kind")
    for cluster, kind, count in rows.annotate(Count("pk")):
        firing.add_metric([cluster or "", kind, "bad" if kind in BAD else "warning"], count)
        if kind == Kind.SAFE_MODE:
            safe.add_metric([cluster or ""], 1)
    yield firing
    yield safe


def read_ledger() -> Iterator[Metric]:
    row = ChainCheck.objects.first()
    intact = GaugeMetricFamily("gpu_defrag_audit_chain_intact", "0 where the ledger's chain is broken.")
    checked = GaugeMetricFamily(
        "gpu_defrag_audit_checked_entry", "Number of the last entry that was checked."
    )
    written = CounterMetricFamily("gpu_defrag_audit_entries", "Entries of the ledger, by their last number.")
    written.add_metric([], AuditEntry.objects.aggregate(last=Max("pk"))["last"] or 0)
    looked = GaugeMetricFamily(
        "gpu_defrag_timer_look_timestamp_seconds",
        "When the timer's look for trouble last ran: beat, broker and a worker were alive.",
    )
    if row is not None:
        intact.add_metric([], int(not row.fault))
        checked.add_metric([], row.last_id)
        if row.looked_at is not None:
            looked.add_metric([], row.looked_at.timestamp())
    yield from (intact, checked, written, looked)


def look_at_beat() -> Iterator[Metric]:
    sent = GaugeMetricFamily(
        "gpu_defrag_beat_last_run_timestamp_seconds",
        "When beat last sent a message, as it notes down every few minutes.",
    )
    at = PeriodicTask.objects.aggregate(last=Max("last_run_at"))["last"]
    if at is not None:
        sent.add_metric([], at.timestamp())
    yield sent


def ask_broker() -> Iterator[Metric]:
    up = GaugeMetricFamily("gpu_defrag_broker_up", "1 where the broker answers this process.")
    waiting = GaugeMetricFamily(
        "gpu_defrag_broker_messages", "Messages that wait for a worker.", labels=["queue"]
    )
    queues = [queue.name for queue in settings.CELERY_TASK_QUEUES]
    client = redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=PATIENCE_SECONDS, socket_timeout=PATIENCE_SECONDS
    )
    try:
        lengths = [client.llen(queue) for queue in queues]
    except redis.RedisError:
        lengths = []
    finally:
        client.close()
    up.add_metric([], int(bool(lengths)))
    for queue, length in zip(queues, lengths, strict=False):
        waiting.add_metric([queue], length)
    yield up
    yield waiting
