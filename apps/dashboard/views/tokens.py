"""API tokens: making one, whose secret the very answer shows and no other, and revoking."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import errors, tokens
from apps.accounts.limits import Scope
from apps.accounts.queries import clusters_of, tokens_for
from apps.accounts.sessions import logged_in_at
from apps.clusters.queries import visible_clusters
from apps.dashboard.views.saying import refuse, tell
from apps.dashboard.views.shell import page, person_of, show

REFUSALS = (errors.Denied, errors.UnusableToken, errors.TokenNameTaken, errors.TooManyRequests)
SCOPES = {
    Scope.READ: "read everything that you see",
    Scope.PLAN: "ask for plans, propose, revise, reject and withdraw them",
    Scope.CONTROL: "start approved plans; pause, resume, cancel and roll back",
}
DAYS = (7, 30, 90, 180, 365)
SHOWN = 200
NEVER = "never"


@page
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: HttpRequest) -> HttpResponse:
    """POST makes a token and shows its secret in the answer: it is never kept, so it cannot redirect."""
    made: dict[str, Any] = _make(request) if request.method == "POST" else {}
    found = tokens_for(request.user)
    rows = [(token, tokens.ended_because(token), clusters_of(token)) for token in found[:SHOWN]]
    return show(
        request,
        "tokens",
        title="API tokens",
        here="Tokens",
        live_on=NEVER,
        context={
            "tokens": rows,
            "limit": SHOWN,
            "shows_people": any(token.user_id != person_of(request).pk for token, _, _ in rows),
            "scopes": SCOPES.items(),
            "days": [days for days in DAYS if days <= settings.API_TOKEN_LONGEST_DAYS]
            or [settings.API_TOKEN_LONGEST_DAYS],
            "places": visible_clusters(request.user),
            "may_make": _logged_in_lately(request),
            "wanted": request.POST if request.method == "POST" and not made else {},
            "ticked": request.POST.getlist("scopes") if request.POST and not made else [Scope.READ],
            **made,
        },
    )


@page
@require_POST
def revoke(request: HttpRequest, number: int) -> HttpResponse:
    token = tokens.revoke_token(actor=person_of(request), token_id=number)
    tell(request, f"Token {token.name} is revoked: nothing opens with it from now on.")
    return redirect("tokens")


def _make(request: HttpRequest) -> dict[str, Any]:
    days = request.POST.get("valid_days", "")
    limited = request.POST.get("reach") == "some"
    try:
        token, secret = tokens.create_token(
            actor=person_of(request),
            name=request.POST.get("name", ""),
            scopes=request.POST.getlist("scopes"),
            valid_days=int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0,
            clusters=request.POST.getlist("clusters") if limited else None,
            logged_in_at=logged_in_at(request),
        )
    except errors.NotVisible:
        raise
    except REFUSALS as error:
        refuse(request, error)
        return {}
    return {"made": token, "secret": secret}


def _logged_in_lately(request: HttpRequest) -> bool:
    at = logged_in_at(request)
    oldest = timezone.now() - timedelta(seconds=settings.TOKEN_LOGIN_MAX_AGE_SECONDS)
    return at is not None and at >= oldest
