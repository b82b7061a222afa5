"""Query parameters that an operation does not have: refused, as fields of a body are, instead of ignored.

The OpenAPI document says which ones it has, so the document and the refusal cannot differ.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

EVERYWHERE = frozenset({"format"})
"""How DRF lets a caller choose between representations; a wrong one is its own problem."""
MOST_TOLD = 20
_reading = Lock()


class KnownParameters(BasePermission):
    """Asked last, so that who may not call at all learns nothing about parameters."""

    def has_permission(self, request: Request, view: Any) -> bool:
        action = getattr(view, "action", request.method)
        # None: no such method here, which is said next. OPTIONS describes the view, and is no operation.
        if action is not None and request.method != "OPTIONS" and request.query_params:
            refuse_unknown(request.query_params, _known(view, request))
        return True


def refuse_unknown(asked: Any, known: frozenset[str]) -> None:
    """Raises ValidationError, with a sentence for each of them."""
    unknown = sorted(set(asked) - known - EVERYWHERE)
    if unknown:
        listed = f"known are {', '.join(sorted(known))}" if known else "this operation has none"
        words = f"there is no such parameter; {listed}"
        raise ValidationError({name[:100]: [words] for name in unknown[:MOST_TOLD]})


def _known(view: Any, request: Request) -> frozenset[str]:
    # Only now: DRF's views, which the document describes, name this module while they are loaded.
    from console.api_schema import parameters_of

    method = "GET" if request.method == "HEAD" else str(request.method)
    with _reading:  # the document is made once; who comes meanwhile waits for it
        return parameters_of(type(view), getattr(view, "action", ""), method)
