"""What the OpenAPI document says beyond the viewsets: who may call, what problems there are, the events."""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.authentication import SAFE
from apps.accounts.conditions import CONDITIONAL, tag_of, unchanged
from apps.accounts.limits import Scope

PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `type` names the kind of problem, `detail` says what, where and what to do.",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "description": "One for each value that cannot be used.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "example": {
        "type": "urn:gpu-defrag-console:problem:wrong-state",
        "title": "The plan is in another state",
        "status": 409,
        "detail": "plan 12 is rejected (Not today.), so it cannot become proposed",
        "instance": "/api/v1/plans/12/propose/",
    },
}
NO_NUL = r"^[^\x00]*$"
METHODS = ("get", "post", "put", "patch", "delete")
WORDS = {
    "304": "It is as you have it: no body",
    "400": "The body is no JSON",
    "401": "No login and no token, or a token that no longer holds",
    "403": "Your roles, or the token's scopes, do not allow it",
    "404": "There is no such thing, or none that you can see",
    "406": "The answer comes as JSON only",
    "409": "It is in another state, or the first request with this Idempotency-Key is under way",
    "412": "It has changed since you looked at it",
    "413": "The body has more than 1 MiB",
    "415": "The body must be JSON",
    "422": "Some values cannot be used; `errors` names them",
    "428": "If-Match is missing",
    "429": "Too many requests: wait for Retry-After",
}
ALWAYS = ("401", "403", "404", "406", "422", "429")
WITH_BODY = ("400", "413", "415")
TAGS = {
    "clusters": "What is registered and watched.",
    "nodes": "Nodes of a cluster's newest snapshot, with topology, MIG and holders.",
    "gpus": "One row per physical GPU: state, holders, MIG instances.",
    "snapshots": "Immutable pictures of a cluster.",
    "fragmentation": "The newest report and the trend.",
    "pending": "What waits, why, and what would unblock it.",
    "what-if": "Where a shape would fit, with every rule's verdict.",
    "fallbacks": "What has waited long and could ask for less GPU memory, with what that would change.",
    "plans": "Ask for, propose, revise, reject, withdraw. Approving takes a person in the browser.",
    "executions": "Start an approved plan; pause, resume, cancel, roll back; steps and events.",
    "policies": "Windows, budgets and protections.",
    "holdings": "What of ours is in each cluster now: cordons, taints, gates, holds, steering.",
    "webhooks": "Who is told of plans, executions and alerts; for admins in the browser's session.",
    "audit": "The ledger, for auditors.",
    "tokens": "API tokens: listed here, made and revoked in the browser's session.",
    "events": "Server-Sent Events.",
    "schema": "This document.",
}
EVENTS = {
    "get": {
        "operationId": "events",
        "description": (
            "Server-Sent Events. The event's name is its topic (snapshot, heartbeat, fragmentation, grid, "
            "plan, policy, execution, preflight, holdings); its data is JSON with the cluster's name and the "
            "ids that changed. Only a hint to read again. A comment comes every 15 seconds. The stream ends "
            "with the session or the token."
        ),
        "tags": ["events"],
        "parameters": [
            {
                "name": "cluster",
                "in": "query",
                "schema": {"type": "string"},
                "description": "only of this cluster; without it, of all that you can see",
            }
        ],
        "security": [{"token": ["read"]}, {"session": []}],
        "responses": {
            "200": {
                "description": "The stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
    }
}


class ConsoleSchema(AutoSchema):
    """An operation names the scope that a token needs for it, or takes no token at all."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        told = operation.get("parameters", []) if operation else []
        names = frozenset(one["name"] for one in told if one["in"] == "query")
        _parameters[type(self.view), getattr(self.view, "action", ""), self.method] = names
        return operation

    def get_auth(self) -> list[dict[str, Any]]:
        scopes = getattr(self.view, "scopes", {})
        action = getattr(self.view, "action", "")
        scope = Scope.READ if self.method in SAFE else scopes.get(action)
        ways = []
        for way in super().get_auth():
            if "token" not in way:
                ways.append(way)
            elif scope:
                ways.append({"token": [str(scope)]})
        return ways


_parameters: dict[tuple[type, str, str], frozenset[str]] = {}
"""Names of the query parameters by view, action and method, noted while the document is made."""


def parameters_of(view: type, action: str, method: str) -> frozenset[str]:
    """None for what is no operation of the document."""
    the_document()
    return _parameters.get((view, action, method), frozenset())


class SchemaView(APIView):
    """The OpenAPI 3.1 document of all this."""

    @extend_schema(operation_id="schema", responses=OpenApiTypes.OBJECT, parameters=CONDITIONAL)
    def get(self, request: Request) -> Response:
        document = the_document()
        tag = tag_of(document)
        return unchanged(request, tag) or Response(document, headers={"ETag": tag})


@cache
def the_document() -> dict[str, Any]:
    """It follows from the code alone, so it is made once."""
    return SchemaGenerator().get_schema(request=None, public=True)


ONE_OF = {"WaiverWish": ("pod", "gang"), "WaiverWishRequest": ("pod", "gang")}
"""Of these fields exactly one is to be given, which a serializer's fields cannot say."""


def describe_problems(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add the event stream, and tell for every operation which problems it answers with."""
    result["paths"]["/api/v1/events/"] = EVENTS
    result["components"].setdefault("schemas", {})["Problem"] = PROBLEM
    for schema in result["components"]["schemas"].values():
        if schema.get("additionalProperties") is False:
            for one in schema["properties"].values():
                _forbid_nul(one)
    for name, ways in ONE_OF.items():
        if name in result["components"]["schemas"]:
            result["components"]["schemas"][name]["oneOf"] = [{"required": [way]} for way in ways]
    names = set()
    for path in result["paths"].values():
        for method in METHODS:
            if method in path:
                _describe(method, path[method])
                names |= set(path[method].get("tags", []))
    result["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in names]
    return result


def _describe(method: str, operation: dict[str, Any]) -> None:
    headers = {one["name"]: one for one in operation.get("parameters", []) if one["in"] == "header"}
    codes = set(ALWAYS) | (set(WITH_BODY) if "requestBody" in operation else set())
    if method != "get":
        codes.add("409")
    if "If-Match" in headers:
        codes |= {"412", "428"} if headers["If-Match"].get("required") else {"412"}
    for one in operation.get("parameters", []):
        if one["in"] == "query":
            _forbid_nul(one["schema"])
    answers = operation["responses"]
    for code in sorted(codes):
        answers.setdefault(code, _problem(WORDS[code], code))
    if "If-None-Match" in headers:
        answers.setdefault("304", {"description": WORDS["304"]})
    answers.setdefault("default", _problem("Any other problem"))


def _forbid_nul(schema: dict[str, Any]) -> None:
    """No text of ours may hold a NUL: the database cannot keep or compare it."""
    if schema.get("type") == "string" and not {"pattern", "enum", "format"} & set(schema):
        schema["pattern"] = NO_NUL


def _problem(words: str, code: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": words,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    headers = {"401": "WWW-Authenticate", "429": "Retry-After"}
    if code in headers:
        kind = "integer" if code == "429" else "string"
        answer["headers"] = {headers[code]: {"required": True, "schema": {"type": kind}}}
    return answer
