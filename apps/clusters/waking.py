"""Wakes the workers that follow a new snapshot. Only a hint: their timers find the row as well."""

from __future__ import annotations

import structlog
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

WAIT_SECONDS = 30
logger = structlog.get_logger(__name__)


def wake_followers() -> None:
    """Send the tasks of SNAPSHOT_FOLLOWERS by name: the stages after this one are not imported here.

    A message that nobody picked up before the next timer is dropped. A broker that is away is logged.
    """
    for task in settings.SNAPSHOT_FOLLOWERS:
        try:
            current_app.send_task(task, retry=False, expires=WAIT_SECONDS)
        except (OperationalError, OSError) as error:
            logger.warning("no worker was woken", task=task, error=str(error))
