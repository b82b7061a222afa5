"""The one table that turns domain errors into HTTP answers (application/problem+json, RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from axes.exceptions import AxesBackendPermissionDenied
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from apps.accounts import errors as accounts
from apps.accounts.services import record_denial
from apps.clusters import errors as clusters
from apps.executions import errors as executions
from apps.pending.asking import PlannerBusy
from apps.plans import errors as plans
from apps.telemetry import errors as telemetry
from apps.wire.webhook_post import WebhookRefused
from console.api_parsers import TooLarge

CONTENT_TYPE = "application/problem+json"
TYPE = "urn:gpu-defrag-console:problem:"
CHALLENGE_TOKEN = 'Bearer realm="GPU Defrag Console"'
CHALLENGE = f"{CHALLENGE_TOKEN}, Session"
A_MOMENT = 4
"""Seconds to wait where nobody can say how long."""

TABLE: dict[type[Exception], tuple[int, str, str]] = {
    accounts.NotVisible: (404, "not-found", "There is no such thing that you can see"),
    plans.SelfApproval: (403, "self-approval", "Nobody approves his own plan"),
    plans.RecentLoginNeeded: (403, "recent-login-needed", "The login is too long ago"),
    accounts.ScopeNeeded: (403, "scope-needed", "This token was not given the scope for this"),
    accounts.LoginTooOld: (403, "recent-login-needed", "This takes a person who logged in just now"),
    accounts.Denied: (403, "denied", "You may not do this"),
    WebhookRefused: (422, "webhook-refused", "This webhook cannot be used"),
    accounts.TokenRefused: (401, "token-refused", "This token is not accepted"),
    accounts.UnusableToken: (422, "unusable-token", "No such token can be made"),
    accounts.TokenNameTaken: (409, "token-name-taken", "There is a token of that name"),
    accounts.TooManyRequests: (429, "too-many-requests", "Too many requests"),
    accounts.PreconditionNeeded: (428, "precondition-needed", "Say what you have looked at"),
    accounts.PreconditionFailed: (412, "precondition-failed", "It has changed since you looked"),
    clusters.BadKubeconfig: (422, "bad-kubeconfig", "This kubeconfig cannot be used"),
    clusters.BadName: (422, "unusable-name", "This name cannot be used"),
    clusters.NameTaken: (409, "cluster-name-taken", "There is a cluster of that name"),
    clusters.AlreadyRegistered: (409, "already-registered", "This cluster is registered already"),
    clusters.ConnectionFailed: (422, "connection-failed", "The cluster does not answer as it should"),
    telemetry.UnusableAddress: (422, "unusable-address", "This address cannot be used"),
    telemetry.NotAnswering: (422, "not-answering", "Nobody answers there as a Prometheus does"),
    accounts.UnusableName: (422, "unusable-name", "This name cannot be used"),
    accounts.KeyReused: (422, "idempotency-key-reused", "This Idempotency-Key was used before"),
    accounts.KeyInFlight: (409, "idempotency-key-in-flight", "The first such request is under way"),
    accounts.LastAdmin: (409, "last-admin", "Somebody must stay admin"),
    PlannerBusy: (429, "planner-busy", "The planner is at work on other questions"),
    plans.NotAdmitted: (422, "not-admitted", "Its queue would not admit the workload now"),
    plans.OverLimit: (422, "over-limit", "The policy of the cluster allows less"),
    plans.InvalidPolicy: (422, "invalid-policy", "This cannot stand in a policy"),
    plans.InvalidRequest: (422, "invalid-plan-request", "This cannot be planned"),
    plans.TooManyDrafts: (429, "too-many-drafts", "Too many plans are being computed"),
    plans.NothingKnown: (409, "nothing-known", "The cluster has not been seen yet"),
    plans.NotComputed: (409, "not-computed", "The plan has no moves to look at"),
    plans.NothingToDo: (409, "nothing-to-do", "The plan moves nothing"),
    plans.PlannedOnly: (409, "planned-only", "Nothing can be carried out on this cluster"),
    plans.AlreadyBegun: (409, "already-begun", "The plan was started"),
    plans.PlanIsStale: (409, "plan-is-stale", "The cluster has changed since the plan was made"),
    plans.WrongState: (409, "wrong-state", "The plan is in another state"),
    plans.OutdatedView: (409, "outdated-view", "The cluster has not been heard from lately"),
    plans.DigestMismatch: (409, "digest-mismatch", "The plan is not the one you looked at"),
    executions.WrongState: (409, "wrong-state", "The execution is in another state"),
    executions.InUse: (409, "in-use", "Another execution works there"),
    executions.HeldByPolicy: (409, "held-by-policy", "The policy of the cluster forbids this now"),
    executions.LostLease: (409, "lost-lease", "Another worker has taken over"),
}
"""Looked up along the error's own line of ancestors, nearest first."""

OWN: dict[int, tuple[str, str]] = {
    400: ("bad-request", "The request cannot be understood"),
    401: ("login-needed", "Log in first"),
    403: ("forbidden", "You may not do this"),
    404: ("not-found", "There is no such thing that you can see"),
    405: ("method-not-allowed", "This address does not take that method"),
    406: ("not-acceptable", "The answer comes as JSON only"),
    413: ("too-large", "The body is too large"),
    415: ("unsupported-media-type", "The body must be JSON"),
    422: ("invalid", "Some values cannot be used"),
    429: ("too-many-requests", "Too many requests"),
    500: ("server-error", "The console failed"),
}


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler. None (an unknown error) goes on to Django, is logged, and ends in 500."""
    set_rollback()
    if isinstance(error, accounts.Denied):
        record_denial(error)
    instance = context["request"].path
    wait = getattr(error, "wait", None)
    for ancestor in type(error).__mro__:
        if ancestor in TABLE:
            status, code, title = TABLE[ancestor]
            return _answer(_problem(status, code, title, str(error), instance), wait, error)
    known = _as_api_exception(error)
    if known is None:
        return None
    if isinstance(known, exceptions.ValidationError):
        return _answer(_invalid(known, instance))
    code, title = OWN.get(known.status_code, ("error", "The request failed"))
    return _answer(_problem(known.status_code, code, title, str(known.detail), instance), wait, error)


@csrf_exempt
def no_such_address(request: HttpRequest) -> HttpResponse:
    """For everything below /api/ that no route takes."""
    return _plain(request, 404, f"there is nothing at {request.path}: see /api/v1/schema/")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Django's handler400, for what it refuses before any view: a forged Host, a NUL in the address."""
    if request.path.startswith("/api/"):
        return _plain(request, 400, "the request's address, Host or headers cannot be used")
    return defaults.bad_request(request, exception or Exception())


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: JSON below /api/, a page elsewhere; never a word about the cause."""
    if request.path.startswith("/api/"):
        return _plain(
            request, 500, "the failure has been logged; try again, then tell the console's operators"
        )
    return defaults.server_error(request)


def _as_api_exception(error: Exception) -> exceptions.APIException | None:
    if isinstance(error, Http404):
        return exceptions.NotFound()
    if isinstance(error, RequestDataTooBig):
        return TooLarge(str(error))
    if isinstance(error, PermissionDenied | AxesBackendPermissionDenied):
        return exceptions.PermissionDenied()
    return error if isinstance(error, exceptions.APIException) else None


def _invalid(error: exceptions.ValidationError, instance: str) -> dict[str, Any]:
    """422 with every field's own sentences; the detail carries the first of them."""
    fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
    found = [
        {"field": str(name), "message": sentence}
        for name, detail in fields.items()
        for sentence in _sentences(detail)
    ]
    first = f"{found[0]['field']}: {found[0]['message']}".removeprefix(": ") if found else ""
    return {**_problem(422, *OWN[422], first, instance), "errors": found}


def _sentences(detail: Any, place: str = "") -> Iterator[str]:
    """Each with its place within the field: "0.start: …" for what is wrong in the first of its windows."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            yield from _sentences(inner, f"{place}.{name}" if place else str(name))
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            within = isinstance(inner, dict | list)
            yield from _sentences(inner, f"{place}.{number}" if within and place else place)
    else:
        yield f"{place}: {detail}" if place else str(detail)


def _problem(status: int, code: str, title: str, detail: str, instance: str) -> dict[str, Any]:
    return {"type": TYPE + code, "title": title, "status": status, "detail": detail, "instance": instance}


def _answer(problem: dict[str, Any], wait: float | None = None, error: Exception | None = None) -> Response:
    """With the headers that go with its status: how to log in, when to come back."""
    status, headers = problem["status"], {}
    if status == 401:
        headers["WWW-Authenticate"] = CHALLENGE
    if isinstance(error, accounts.ScopeNeeded):
        headers["WWW-Authenticate"] = f'{CHALLENGE_TOKEN}, error="insufficient_scope", scope="{error.scope}"'
    if status == 429:
        headers["Retry-After"] = str(int(wait or A_MOMENT) + 1)
    return Response(problem, status=status, content_type=CONTENT_TYPE, headers=headers)


def _plain(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    code, title = OWN[status]
    body = _problem(status, code, title, detail, request.path)
    return JsonResponse(body, status=status, content_type=CONTENT_TYPE)
