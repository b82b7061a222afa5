"""`?ordering=`: the same words everywhere, for rows of the database and for rows that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request


class Ordering(OrderingFilter):
    """As DRF's, but what it does not know is refused instead of ignored."""

    def remove_invalid_fields(self, queryset: Any, fields: Any, view: Any, request: Request) -> list[str]:
        allowed = view.ordering_fields
        _refuse_unknown([field.strip() for field in fields], allowed)
        return [field.strip() for field in fields]

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": "ordering",
                "in": "query",
                "required": False,
                "description": _describe(view.ordering_fields),
                "schema": {"type": "string", "pattern": _pattern(view.ordering_fields)},
            }
        ]


def ordering_parameter(fields: Sequence[str]) -> OpenApiParameter:
    return OpenApiParameter(
        "ordering", {"type": "string", "pattern": _pattern(fields)}, description=_describe(fields)
    )


def ordered(request: Request, rows: list[dict[str, Any]], allowed: Sequence[str]) -> list[dict[str, Any]]:
    """Computed rows in the order asked for; as they are without one. What is not known comes last."""
    text = request.query_params.get("ordering", "")
    # Named again it changes nothing, and an address has room for a thousand names.
    fields = list(dict.fromkeys(field.strip() for field in text.split(","))) if text else []
    _refuse_unknown(fields, allowed)
    for field in reversed(fields):
        name, is_down = field.lstrip("-"), field.startswith("-")
        known = [row for row in rows if row[name] is not None]
        unknown = [row for row in rows if row[name] is None]
        rows = [*sorted(known, key=itemgetter(name), reverse=is_down), *unknown]
    return rows


def _refuse_unknown(fields: Sequence[str], allowed: Sequence[str]) -> None:
    if any(field.removeprefix("-") not in allowed for field in fields):
        raise ValidationError({"ordering": [_describe(allowed)]})


def _describe(fields: Sequence[str]) -> str:
    return f"one or more of {', '.join(fields)}, separated by commas; a minus in front turns one around"


def _pattern(fields: Sequence[str]) -> str:
    one = f"-?({'|'.join(fields)})"
    return f"^({one}(,{one})*)?$"
