"""Who speaks over REST: an API token or a session of the browser, never both.

Beside a token no cookie counts: one that is refused is refused, whatever session came with it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.authentication import SessionAuthentication, get_authorization_header
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.errors import ScopeNeeded, TokenRefused, TooManyRequests
from apps.accounts.limits import Scope, TokenLimits, limits_of
from apps.accounts.models import User
from apps.accounts.rates import caller_key, require_rate, seconds_to_wait
from apps.accounts.tokens import recognise_token

SCHEME = "Bearer"
SAFE = ("GET", "HEAD", "OPTIONS")


def token_of(request: HttpRequest | Request) -> bytes | None:
    """What stands behind "Authorization: Bearer"; None without. Raises TokenRefused."""
    scheme, _, secret = get_authorization_header(request).partition(b" ")  # type: ignore[arg-type]
    if scheme.lower() != SCHEME.lower().encode():
        return None
    secret = secret.strip()
    if not secret or b" " in secret:
        raise TokenRefused("write the header as Authorization: Bearer TOKEN")
    return secret


def person_with_token(request: HttpRequest | Request) -> User | None:
    """The person behind the request's token, None without a token.

    Raises TokenRefused; TooManyRequests to an address that sends bad tokens by the dozen.
    """
    secret = token_of(request)
    if secret is None:
        return None
    try:
        return recognise_token(secret)
    except TokenRefused:
        wait = seconds_to_wait("bad-tokens", f"address:{request.META.get('REMOTE_ADDR', '')}")
        if wait:
            raise TooManyRequests(f"too many bad tokens: wait {wait} seconds", wait=wait) from None
        raise


class ByToken(TokenAuthentication):
    """knox's scheme with our tokens; the person carries the token's limits from here on."""

    def authenticate(self, request: Request) -> tuple[User, TokenLimits] | None:
        person = person_with_token(request)
        if person is None or person.token is None:
            return None
        return person, person.token

    def authenticate_header(self, request: Any) -> str:
        return SCHEME


class BySession(SessionAuthentication):
    """The browser's session, with CSRF on every unsafe method."""


class WithinScope(BasePermission):
    """A token reads with `read`, and changes what a view's `scopes` names for the action, nothing else."""

    def has_permission(self, request: Request, view: Any) -> bool:
        limits = limits_of(request.user)
        action = getattr(view, "action", "")
        if limits is None or action is None:  # None: no such method here, which is said next
            return True
        is_safe = request.method in SAFE
        needed = Scope.READ if is_safe else getattr(view, "scopes", {}).get(action, "")
        if needed in limits.scopes:
            return True
        # Calls are counted only once they are permitted, and each refusal becomes a row of the ledger.
        require_rate("calls", request.user)
        facts: dict[str, Any] = {
            "actor": request.user,
            "action": str(needed or action),
            "subject": request.path[:120],
        }
        if not needed:
            raise ScopeNeeded("no token may do this: a person does it in the browser", **facts)
        raise ScopeNeeded(
            f"token {limits.name!r} has no scope {needed}: make one that has", scope=needed, **facts
        )


class CallRate(BaseThrottle):
    """Every call counts; a view's `rates` names a second, tighter count for some actions."""

    wait_seconds = 0

    def allow_request(self, request: Request, view: Any) -> bool:
        kinds = ["calls", getattr(view, "rates", {}).get(getattr(view, "action", None))]
        who = caller_key(request.user) if request.user.is_authenticated else self.get_ident(request)
        for kind in filter(None, kinds):
            self.wait_seconds = seconds_to_wait(kind, who)
            if self.wait_seconds:
                return False
        return True

    def wait(self) -> float:
        return self.wait_seconds - 1  # the answer rounds up


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = ByToken
    name = "token"
    priority = 1

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token from the page Tokens: Authorization: Bearer gdc_…",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = BySession
    name = "session"
    priority = 1

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "The browser's session. Unsafe methods need the header X-CSRFToken as well.",
        }
