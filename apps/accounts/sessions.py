"""When the person behind a session last proved who he is: approval asks for a recent login."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

KEY = "logged_in_at"


def remember_login(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    """Receiver of Django's `user_logged_in`, so that it holds for every way to log in."""
    request.session[KEY] = timezone.now().isoformat()


def logged_in_at(request: HttpRequest) -> datetime | None:
    """The login that this very session began with; None for a session that tells none."""
    text = request.session.get(KEY)
    return datetime.fromisoformat(text) if text else None
