"""The Status bodies a Kubernetes API server answers with when it refuses.

Every refusal is raised as ApiError and turned into JSON in one place. Which rule was broken is
decided elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from apps.simulator.api_server.kinds import Kind


@dataclass(frozen=True)
class Cause:
    """One field that was wrong: its path, what kind of wrong, and the sentence."""

    field: str
    reason: str
    message: str


class ApiError(Exception):
    """A refusal: HTTP code, reason and details of its Status body, and extra headers."""

    def __init__(
        self,
        code: int,
        message: str,
        reason: str = "",
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.reason = code, message, reason
        self.details, self.headers = details, headers or {}
        self.continue_token = ""

    def body(self) -> dict[str, Any]:
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


class PlainNotFound(Exception):
    """No such API group: answered as text, not as a Status."""


class DecodeError(Exception):
    """The text is JSON but not an object of its kind; POST says 400 to it, PATCH says 422."""


def success(code: int | None = None, details: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body


def details_of(kind: Kind, name: str, *, by_kind: bool = False) -> dict[str, Any]:
    """name, group and kind as a Status names them; by_kind says "Pod" in the place of "pods"."""
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind if by_kind else kind.plural
    return details


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, f'{kind.resource} "{name}" not found', "NotFound", details_of(kind, name))


def no_such_resource() -> ApiError:
    return ApiError(404, "the server could not find the requested resource", "NotFound", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    return ApiError(409, f'{kind.resource} "{name}" already exists', "AlreadyExists", details_of(kind, name))


def conflict(kind: Kind, name: str, why: str, *, by_kind: bool = False, plural: str = "") -> ApiError:
    details = details_of(kind, name, by_kind=by_kind)
    shown = kind.kind if by_kind else (plural or kind.resource)
    if plural:
        details["kind"] = plural
    message = f'Operation cannot be fulfilled on {shown} "{name}": {why}'
    return ApiError(409, message, "Conflict", details)


def modified(kind: Kind, name: str) -> ApiError:
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def invalid(kind: Kind, name: str, *causes: Cause, by_plural: bool = False) -> ApiError:
    shown = kind.plural if by_plural else kind.kind
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    details["kind"] = shown
    return _invalid(f"{shown}.{kind.group}" if kind.group else shown, name, details, causes)


def invalid_options(options: str, *causes: Cause) -> ApiError:
    """A wrong query parameter: ListOptions, PatchOptions and so on."""
    details = {"group": "meta.k8s.io", "kind": options}
    return _invalid(f"{options}.meta.k8s.io", "", details, causes)


def invalid_patch(document: str, why: str) -> ApiError:
    """The patched object is no object of its kind; the message shows it whole."""
    cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {json.dumps(document)}: {why}")
    return _invalid("", "", {}, (cause,))


def _invalid(shown: str, name: str, details: dict[str, Any], causes: tuple[Cause, ...]) -> ApiError:
    sentences = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return ApiError(422, f'{shown} "{name}" is invalid: {text}', "Invalid", details)


def bad_value(field: str, value: Any, why: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_compact(value)}: {why}")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def required(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def forbidden_value(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    return ApiError(403, f'{kind.resource} "{name}" is forbidden: {why}', "Forbidden", details_of(kind, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, message, "BadRequest")


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, message, "MethodNotAllowed", {})


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> ApiError:
    return ApiError(410, message, "Expired")


def too_large_version(asked: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, message, "Timeout", details, {"Retry-After": "1"})
