"""Who is behind a session, and when he last proved it: approval and tokens ask for a recent login."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from apps.accounts.errors import LoginTooOld
from apps.accounts.models import User

KEY = "logged_in_at"


def remember_login(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    """Receiver of Django's `user_logged_in`, so that it holds for every way to log in."""
    request.session[KEY] = timezone.now().isoformat()


def logged_in_at(request: HttpRequest) -> datetime | None:
    """The login that this very session began with; None for a session that tells none."""
    text = request.session.get(KEY)
    return datetime.fromisoformat(text) if text else None


def require_recent_login(request: HttpRequest, act: str) -> None:
    """Raises LoginTooOld unless this very session began within TOKEN_LOGIN_MAX_AGE_SECONDS."""
    at = logged_in_at(request)
    if at is None or at < timezone.now() - timedelta(seconds=settings.TOKEN_LOGIN_MAX_AGE_SECONDS):
        raise LoginTooOld(
            f"your login is too long ago to {act}: log out, log in again, then repeat it",
            actor=request.user,
            action=act,
            subject="users",
        )


def person_of_session(session_key: str | None) -> User | None:
    """Who is logged in by this session now, read afresh: None once it ended, its person is switched off,
    or his password is another one. For what outlives a request; requests have Django's middleware.
    """
    facts = SessionStore(session_key).load() if session_key else {}
    user_id = facts.get(SESSION_KEY)
    person = User.objects.filter(pk=user_id, is_active=True).first() if user_id else None
    if person is None:
        return None
    hashes = [person.get_session_auth_hash(), *person.get_session_auth_fallback_hash()]
    known = facts.get(HASH_SESSION_KEY, "")
    return person if any(constant_time_compare(known, one) for one in hashes) else None
