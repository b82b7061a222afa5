"""How often one caller may do what. Counted in Redis: a lost count is forgiven, a Redis that is away limits
nobody. What must hold (login limits, plans in computing) is counted in the database instead.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import Any

import redis
import structlog
from django.conf import settings

from apps.accounts.errors import TooManyRequests
from apps.accounts.limits import limits_of

PATIENCE_SECONDS = 0.5
logger = structlog.get_logger(__name__)


def seconds_to_wait(kind: str, who: str) -> int:
    """Count one more of `kind` (a key of settings.API_RATES). 0: go ahead."""
    most, seconds = settings.API_RATES[kind]
    now = time.time()
    window = int(now // seconds)
    key = f"console:rate:{kind}:{who}:{window}"
    try:
        counting = _client().pipeline()
        counting.incr(key)
        counting.expire(key, seconds + 1)
        count = counting.execute()[0]
    except redis.RedisError as error:
        logger.warning("requests are not counted", kind=kind, error=str(error))
        return 0
    return 0 if count <= most else math.ceil((window + 1) * seconds - now)


def require_rate(kind: str, person: Any) -> None:
    """Raises TooManyRequests, which says when to come back."""
    wait = seconds_to_wait(kind, caller_key(person))
    if wait:
        most, seconds = settings.API_RATES[kind]
        raise TooManyRequests(f"more than {most} in {seconds} seconds: wait {wait} seconds", wait=wait)


def caller_key(person: Any) -> str:
    """A token is a caller of its own."""
    limits = limits_of(person)
    return f"token:{limits.token_id}" if limits else f"person:{person.pk}"


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=PATIENCE_SECONDS, socket_timeout=PATIENCE_SECONDS
    )
