"""Waking a worker. A message is only a hint: the timer does the same work a little later without it."""

from __future__ import annotations

import structlog
from celery import current_app
from kombu.exceptions import OperationalError

log = structlog.get_logger(__name__)


def wake_worker(task: str, *arguments: object) -> bool:
    """Send the task by name, at once or not at all: a broker that is away fails no committed change.

    False if nobody was woken.
    """
    try:
        current_app.send_task(task, args=arguments, retry=False)
    except (OperationalError, OSError) as error:
        log.warning("no worker was woken", task=task, error=str(error))
        return False
    return True
