"""What an API server's answer means: an HTTP status and a Status body become one of `errors`.

Only the mapping lives here; who asked and what happens next does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from apps.kube import errors
from apps.kube.connection import Answer, Request

LONGEST_MESSAGE = 600
NOT_SERVED = "404 page not found"
"""Of an API server about an address that it does not have, such as that of a kind nobody defined."""
PROXY = "Is there a proxy in front of the API server?"
_MOVES_IT_ITSELF = re.compile(r"\b(evacuation|migration)\b")
"""KubeVirt's words: its webhook begins a live migration and denies the eviction."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(text: bytes) -> Any:
    """The value, without what no database stores: the character NUL, which annotations and messages may hold
    (also as JSON within JSON), and halves of surrogate pairs. Raises ValueError, RecursionError."""
    found = json.loads(text.replace(b"\\u0000", b"\\ufffd"))
    if _HALF_CHARACTER.search(text):
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return found


def read_object(answer: Answer, request: Request) -> dict[str, Any]:
    """The JSON object of a good answer. Raises the fitting KubeError for any other."""
    if not 200 <= answer.status < 300:
        raise error_of(answer, request)
    try:
        found = read_json(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise errors.ServerFailed(
            f"{request.words}: the answer is no JSON object. {PROXY}", status=answer.status
        )
    return found


def read_named(answer: Answer, request: Request, name: str) -> dict[str, Any]:
    """The object of that name. An answer about anything else tells nothing of it: ServerFailed."""
    found = read_object(answer, request)
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") != name:
        raise errors.ServerFailed(
            f"{request.words}: the answer is not the object that was asked for. {PROXY}", status=answer.status
        )
    return found


def read_page(answer: Answer, request: Request) -> dict[str, Any]:
    """A page of a list. An answer without items is none: it would read as "there is nothing"."""
    found = read_object(answer, request)
    if not isinstance(found.get("items", ""), list | None):
        raise errors.ServerFailed(f"{request.words}: the answer is no list. {PROXY}", status=answer.status)
    return found


def error_of(answer: Answer, request: Request) -> errors.KubeError:
    """The error for an answer outside 200 to 299."""
    status = _status_body(answer.body)
    if answer.status == 404 and not _is_of_server(status, request):
        # Of a proxy that has lost its way: what it cannot find may be there.
        return errors.ServerFailed(
            f"{request.words}: {_message(404, status)}, which is no API server's word. {PROXY}", status=404
        )
    return error_of_status(answer.status, status, request, headers=answer.headers)


def error_of_status(
    code: int, status: Mapping[str, Any], request: Request, *, headers: Mapping[str, str] | None = None
) -> errors.KubeError:
    """The same for a Status object, which watches carry inside a 200."""
    message = f"{request.words}: {_message(code, status)}"
    kind = _class_of(code, status, request)
    if kind is errors.Unauthorized:
        message += " — the credential is refused: register the cluster again with a valid one."
    return kind(message, status=code, retry_after=_retry_after(status, headers or {}))


def _is_of_server(status: Mapping[str, Any], request: Request) -> bool:
    """A Status object; or its plain words about an address outside the core API, which is always served."""
    if status.get("kind") == "Status":
        return True
    return status.get("message") == NOT_SERVED and not request.path.startswith("/api/")


def _class_of(code: int, status: Mapping[str, Any], request: Request) -> type[errors.KubeError]:
    by_code: dict[int, type[errors.KubeError]] = {
        400: errors.Invalid,
        401: errors.Unauthorized,
        403: errors.Forbidden,
        404: errors.NotFound,
        405: errors.Invalid,
        406: errors.Invalid,
        410: errors.Expired,
        413: errors.Invalid,
        415: errors.Invalid,
    }
    if code == 409:
        exists = status.get("reason") == "AlreadyExists"
        return errors.AlreadyExists if exists else errors.Conflict
    if code == 422:
        # A patch guarded by another object's UID is answered as an attempt to change that UID.
        return errors.Conflict if "metadata.uid" in _fields(status) else errors.Invalid
    if code == 429:
        return _class_of_429(status, request)
    if code == 500 and "more than one PodDisruptionBudget" in str(status.get("message", "")):
        return errors.SeveralBudgets
    return by_code.get(code, errors.ServerFailed)


def _class_of_429(status: Mapping[str, Any], request: Request) -> type[errors.KubeError]:
    """Priority and fairness answers it as well, to any request and without such words."""
    if not request.path.endswith("/eviction"):
        return errors.TooManyRequests
    message = str(status.get("message", "")).lower()
    if any(cause.get("reason") == "DisruptionBudget" for cause in _causes(status)):
        return errors.BudgetExhausted
    if message.startswith("admission webhook") and _MOVES_IT_ITSELF.search(message):
        return errors.MovedByItsOwner
    return errors.BudgetExhausted if "disruption budget" in message else errors.TooManyRequests


def _causes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def _fields(status: Mapping[str, Any]) -> str:
    return " ".join(str(cause.get("field", "")) for cause in _causes(status)) or str(
        status.get("message", "")
    )


def _status_body(body: bytes) -> dict[str, Any]:
    try:
        found = read_json(body)
    except (ValueError, RecursionError):
        return {"message": body[:LONGEST_MESSAGE].decode("utf-8", "replace").replace("\0", "\ufffd").strip()}
    return found if isinstance(found, dict) else {}


def _message(code: int, status: Mapping[str, Any]) -> str:
    text = str(status.get("message") or status.get("reason") or f"HTTP {code}")
    causes = "; ".join(str(cause["message"]) for cause in _causes(status) if cause.get("message"))
    if causes and causes not in text:
        text = f"{text} ({causes})"
    return text if len(text) <= LONGEST_MESSAGE else text[:LONGEST_MESSAGE] + "…"


def _retry_after(status: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    details = status.get("details")
    candidates = [headers.get("Retry-After")]
    if isinstance(details, dict):
        candidates.append(details.get("retryAfterSeconds"))
    for value in candidates:
        try:
            return min(max(float(str(value)), 0.0), 3600.0)
        except ValueError:
            continue
    return None
