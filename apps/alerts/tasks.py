"""What workers do for alerts. Thin shells."""

from celery import shared_task

from apps.alerts import services


@shared_task(soft_time_limit=60, time_limit=90)
def look_for_trouble() -> None:
    services.look()
