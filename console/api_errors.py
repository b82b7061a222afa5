"""The one table that turns domain errors into HTTP answers (application/problem+json, RFC 9457)."""

from __future__ import annotations

from typing import Any

from axes.exceptions import AxesBackendPermissionDenied
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from apps.accounts import errors as accounts
from apps.accounts.services import record_denial
from apps.executions import errors as executions
from apps.plans import errors as plans
from console.api_parsers import TooLarge

CONTENT_TYPE = "application/problem+json"
TYPE = "urn:gpu-defrag-console:problem:"

TABLE: dict[type[Exception], tuple[int, str, str]] = {
    accounts.NotVisible: (404, "not-found", "There is no such thing that you can see"),
    plans.SelfApproval: (403, "self-approval", "Nobody approves his own plan"),
    plans.RecentLoginNeeded: (403, "recent-login-needed", "The login is too long ago"),
    accounts.Denied: (403, "denied", "You may not do this"),
    accounts.UnusableName: (422, "unusable-name", "This name cannot be used"),
    accounts.KeyReused: (422, "idempotency-key-reused", "This Idempotency-Key was used before"),
    accounts.KeyInFlight: (409, "idempotency-key-in-flight", "The first such request is under way"),
    accounts.LastAdmin: (409, "last-admin", "Somebody must stay admin"),
    plans.InvalidRequest: (422, "invalid-plan-request", "This cannot be planned"),
    plans.TooManyDrafts: (429, "too-many-drafts", "Too many plans are being computed"),
    plans.NothingKnown: (409, "nothing-known", "The cluster has not been seen yet"),
    plans.NotComputed: (409, "not-computed", "The plan has no moves to look at"),
    plans.NothingToDo: (409, "nothing-to-do", "The plan moves nothing"),
    plans.AlreadyBegun: (409, "already-begun", "The plan is being carried out"),
    plans.PlanIsStale: (409, "plan-is-stale", "The cluster has changed since the plan was made"),
    plans.WrongState: (409, "wrong-state", "The plan is in another state"),
    plans.OutdatedView: (409, "outdated-view", "The cluster has not been heard from lately"),
    plans.DigestMismatch: (409, "digest-mismatch", "The plan is not the one you looked at"),
    executions.WrongState: (409, "wrong-state", "The execution is in another state"),
    executions.InUse: (409, "in-use", "Another execution works there"),
    executions.LostLease: (409, "lost-lease", "Another worker has taken over"),
    executions.Refused: (409, "refused", "This plan cannot be carried out there"),
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
    for ancestor in type(error).__mro__:
        if ancestor in TABLE:
            status, code, title = TABLE[ancestor]
            return _answer(_problem(status, code, title, str(error), instance))
    known = _as_api_exception(error)
    if known is None:
        return None
    if isinstance(known, exceptions.ValidationError):
        return _answer(_invalid(known, instance))
    # Sessions name no scheme, so DRF would say 403 to somebody who merely has not logged in.
    status = 401 if isinstance(known, exceptions.NotAuthenticated) else known.status_code
    code, title = OWN.get(status, ("error", "The request failed"))
    answer = _answer(_problem(status, code, title, str(known.detail), instance))
    if status == 401:
        answer["WWW-Authenticate"] = "Session"
    wait = getattr(known, "wait", None)
    if wait:
        answer["Retry-After"] = str(int(wait) + 1)
    return answer


def no_such_address(request: HttpRequest) -> HttpResponse:
    """For everything below /api/ that no route takes."""
    return _plain(request, 404, f"there is nothing at {request.path}: see /api/v1/schema/")


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
        {"field": str(name), "message": str(sentence)}
        for name, sentences in fields.items()
        for sentence in (sentences if isinstance(sentences, list) else [sentences])
    ]
    first = f"{found[0]['field']}: {found[0]['message']}".removeprefix(": ") if found else ""
    return {**_problem(422, *OWN[422], first, instance), "errors": found}


def _problem(status: int, code: str, title: str, detail: str, instance: str) -> dict[str, Any]:
    return {"type": TYPE + code, "title": title, "status": status, "detail": detail, "instance": instance}


def _answer(problem: dict[str, Any]) -> Response:
    return Response(problem, status=problem["status"], content_type=CONTENT_TYPE)


def _plain(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    code, title = OWN[status]
    body = _problem(status, code, title, detail, request.path)
    return JsonResponse(body, status=status, content_type=CONTENT_TYPE)
