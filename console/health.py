"""`/healthz`: this process answers. `/readyz`: what it stands on answers too, each named."""

import redis
from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database and broker answer, else 503; never a secret or an address in the answer."""
    parts = {"database": _database_answers(), "broker": _broker_answers()}
    ready = all(parts.values())
    words = {name: "ok" if answers else "no answer" for name, answers in parts.items()}
    return JsonResponse({"status": "ok" if ready else "not ready", **words}, status=200 if ready else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True
    except Error:
        return False


def _broker_answers() -> bool:
    try:
        client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
        return bool(client.ping())
    except redis.RedisError:
        return False
