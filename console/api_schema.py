"""What the OpenAPI document says beyond the viewsets: how problems are told, and the event stream."""

from __future__ import annotations

from typing import Any

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
}
METHODS = ("get", "post", "put", "patch", "delete")


EVENTS = {
    "get": {
        "operationId": "events",
        "description": (
            "Server-Sent Events. The event's name is its topic (snapshot, heartbeat, fragmentation, plan, "
            "execution); its data is JSON with the cluster's name and the ids that changed. Only a hint "
            "to read again. A comment comes every 15 seconds."
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
        "security": [{"cookieAuth": []}],
        "responses": {
            "200": {
                "description": "The stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
    }
}


def describe_problems(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add the event stream, and give every operation a default answer: a problem."""
    result["paths"]["/api/v1/events/"] = EVENTS
    result["components"].setdefault("schemas", {})["Problem"] = PROBLEM
    answer = {
        "description": "A problem",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for path in result["paths"].values():
        for method in METHODS:
            if method in path:
                path[method]["responses"].setdefault("default", answer)
    return result
