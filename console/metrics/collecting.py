"""All families of /metrics, each from one query; a bounded number of queries whatever the rows hold."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric

from console.metrics import of_clusters, of_console, of_executions

SOURCES = (
    of_executions.count_executions,
    of_executions.count_plans,
    of_executions.count_steps,
    of_executions.count_requests,
    of_executions.look_at_visits,
    of_clusters.tell_watches,
    of_clusters.tell_switches,
    of_clusters.sum_held,
    of_clusters.read_queues,
    of_clusters.read_fragmentation,
    of_console.count_alerts,
    of_console.read_ledger,
    of_console.look_at_beat,
    of_console.ask_broker,
)
"""Each yields its families, also where there is nothing to tell."""


class RowsCollector:
    def collect(self) -> Iterator[Metric]:
        for source in SOURCES:
            yield from source()
