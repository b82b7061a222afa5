"""The header Idempotency-Key on what creates: the same request twice makes one thing.

Same key and body: the first answer again. Same key, other body: 422. The first is still in flight:
409. Answers are kept for a day, in the database. A request that was refused changed nothing, so its
key is free again. A key belongs to its caller: a person in the browser, or one of his tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.errors import KeyInFlight, KeyReused, NotVisible
from apps.accounts.limits import limits_of
from apps.accounts.models import RememberedAnswer
from apps.accounts.queries import cluster_model, clusters_visible_to

KEPT = timedelta(days=1)
GIVEN_UP = timedelta(minutes=10)
"""A request in flight for longer died with its server."""

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "maxLength": 200},
    OpenApiParameter.HEADER,
    description="Chosen by the caller; the same request with the same key is carried out once.",
)
View = Callable[..., Response]


def once_per_key(view: View) -> View:
    """Decorates a viewset's method that creates something.

    A secret in the answer is not kept: the answer again has it empty.
    """

    @wraps(view)
    def guarded(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return view(self, request, *args, **kwargs)
        if len(key) > 200:
            raise ValidationError({"Idempotency-Key": ["it is longer than 200 characters"]})
        remembered, is_new = _claim(request, key)
        if not is_new:
            return _replay(request, remembered, _digest(request))
        try:
            answer = view(self, request, *args, **kwargs)
        except Exception:
            RememberedAnswer.objects.filter(pk=remembered.pk).delete()
            raise
        body = json.loads(JSONRenderer().render(answer.data))
        if "secret" in body:
            body["secret"] = ""
        RememberedAnswer.objects.filter(pk=remembered.pk).update(status=answer.status_code, body=body)
        return answer

    return guarded


@transaction.atomic
def _claim(request: Request, key: str) -> tuple[RememberedAnswer, bool]:
    """The row of this key, and whether this request made it. Of two at once one makes it."""
    user_id: Any = request.user.pk
    limits = limits_of(request.user)
    caller = f"token:{limits.token_id}" if limits else ""
    own = RememberedAnswer.objects.filter(user_id=user_id, caller=caller)
    died = Q(status__isnull=True, created_at__lt=Now() - GIVEN_UP)
    own.filter(died | Q(created_at__lt=Now() - KEPT)).delete()
    return own.get_or_create(
        user_id=user_id, caller=caller, key=key, defaults={"request_digest": _digest(request)}
    )


def _replay(request: Request, remembered: RememberedAnswer, digest: str) -> Response:
    if remembered.request_digest != digest:
        raise KeyReused("this Idempotency-Key came with another request before: make a new key for each")
    if remembered.status is None:
        raise KeyInFlight(
            "the first request with this Idempotency-Key is not answered yet: ask again shortly"
        )
    cluster = remembered.body.get("cluster") if isinstance(remembered.body, dict) else None
    seen = cluster_model()._default_manager.filter(pk__in=clusters_visible_to(request.user), name=cluster)
    if cluster and not seen.exists():
        raise NotVisible(f"there is no cluster {cluster!r} that you can see")
    return Response(remembered.body, status=remembered.status, headers={"Idempotency-Replayed": "true"})


def _digest(request: Request) -> str:
    body = json.dumps(request.data, sort_keys=True, default=str)
    return hashlib.sha256(f"{request.method} {request.path}\n{body}".encode()).hexdigest()
