"""What the OpenAPI document says of every operation alike: how it tells a problem."""

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


def describe_problems(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Give every operation a default answer: a problem."""
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
