"""Reads one source: claim it, ask its Prometheus, keep what it said. Never in one transaction."""

from __future__ import annotations

import time

from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.prometheus.client import Client
from apps.prometheus.errors import MetricsError
from apps.prometheus.past import Past
from apps.telemetry import queries, services
from apps.telemetry.doors import open_client
from apps.telemetry.models import Source
from apps.telemetry.windows import MINUTE

STEP_SECONDS = 60.0
LOW_USE_SECONDS = 60.0


def read_source(source_id: int) -> bool:
    """Whether there is a new reading. A failure is kept as a sentence; what was read before stays."""
    source = services.claim_source(source_id=source_id)
    if source is None:
        return False
    try:
        client = open_client(source)
        try:
            reading = client.read()
            past = _past(source, client, reading.metrics, reading.at)
        finally:
            client.close()
    except (MetricsError, ConnectionFailed) as error:
        services.note_failure(source=source, error=str(error))
        return False
    services.record_reading(
        source=source,
        at=reading.at,
        devices=reading.devices,
        metrics=reading.metrics,
        warnings=reading.warnings,
        past=past,
    )
    _work_out_low_use(source.cluster, at=reading.at)
    return True


def _work_out_low_use(cluster: Cluster, *, at: float) -> None:
    """Once a minute: it goes through every device, and an average over minutes changes slowly."""
    known = queries.low_use_of(cluster)
    if known is not None and at - known[1].timestamp() < LOW_USE_SECONDS:
        return
    row, telemetry = latest_snapshot(cluster), queries.open_telemetry(cluster)
    if row is None or telemetry is None:
        return
    found = queries.low_use_among(telemetry, open_snapshot(row))
    services.record_low_use(cluster_id=cluster.pk, found=found, taken_at=telemetry.taken_at)


def _past(source: Source, client: Client, metrics: tuple[str, ...], at: float) -> Past:
    """The window's beginning, where it was not read: Prometheus remembers it. Only minutes that lack."""
    start = services.window_start(at)
    known = {row.timestamp() for row in queries.minutes_known(source.cluster_id, start)}
    lacking = [start + number * MINUTE for number in range(int((at - start) // MINUTE))]
    lacking = [minute for minute in lacking if minute not in known]
    if len(lacking) < 2 or time.time() - at > STEP_SECONDS:
        return {}
    told = client.past_use(metrics, since=lacking[0], until=lacking[-1], step=STEP_SECONDS)
    wanted = set(lacking)
    return {
        unit: [pair for pair in pairs if pair[0] - pair[0] % MINUTE in wanted] for unit, pairs in told.items()
    }
