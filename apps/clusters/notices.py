"""Telling open pages that something changed. Only a hint: a page that hears nothing still reloads.

One Redis channel for all clusters; `apps.clusters.events` sorts out who may hear what. Callers
publish on commit, so nobody hears of a change that was rolled back.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings

CHANNEL = "console:events"
TOPICS = ("snapshot", "plan", "execution")

log = structlog.get_logger(__name__)


def publish(cluster_name: str, topic: str, data: dict[str, Any]) -> None:
    """Send one notice. A Redis that is away is logged and never raised."""
    message = json.dumps({"cluster": cluster_name, "topic": topic, "data": data})
    try:
        _client().publish(CHANNEL, message)
    except redis.RedisError as error:
        log.warning("no page was told", cluster=cluster_name, topic=topic, error=str(error))


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)
