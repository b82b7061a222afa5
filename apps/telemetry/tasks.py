"""What workers do for telemetry. Thin shells."""

from celery import shared_task

from apps.telemetry import queries, runner

EVERY_SECONDS = 15


@shared_task
def read_telemetry() -> None:
    """One message per cluster, so that a slow Prometheus holds up no other."""
    for source_id in queries.source_ids():
        read_source.apply_async((source_id,), expires=EVERY_SECONDS)


@shared_task(soft_time_limit=90, time_limit=120)
def read_source(source_id: int) -> None:
    runner.read_source(source_id)
