"""What workers do for webhooks. Thin shells."""

from celery import shared_task

from apps.webhooks import delivering


@shared_task(soft_time_limit=60, time_limit=90)
def tell_receivers() -> None:
    """Decide what is to be told, then tell what is due."""
    delivering.decide_deliveries()
    delivering.send_due()
