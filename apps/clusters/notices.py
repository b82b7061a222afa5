"""Tells pages that something changed, through Redis. A hint only: what is true stands in the rows.

Topics: "snapshot", "heartbeat", "fragmentation", "grid", "plan", "search", "policy", "execution",
"preflight", "alert", "holdings". Nothing waits for a notice and nobody minds a lost one, so a Redis that
is away is logged and no more.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import transaction

CHANNEL = "console:events"
CONNECT_SECONDS = 2
logger = structlog.get_logger(__name__)


def publish(cluster_name: str, topic: str, data: dict[str, Any]) -> None:
    """Send at once. Inside a transaction use `publish_on_commit`. data: small, never a secret."""
    message = json.dumps({"cluster": cluster_name, "topic": topic, "data": data})
    try:
        _client().publish(CHANNEL, message)
    except redis.RedisError as error:
        logger.warning("notice not sent", topic=topic, cluster=cluster_name, error=str(error))


def publish_on_commit(cluster_name: str, topic: str, data: dict[str, Any]) -> None:
    """Send when (and only if) the current transaction commits."""
    transaction.on_commit(lambda: publish(cluster_name, topic, data), robust=True)


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=CONNECT_SECONDS,
        health_check_interval=30,
    )
