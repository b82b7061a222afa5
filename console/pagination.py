"""Pages of the REST API: the same everywhere."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request

DIGITS = 18
"""A longer number is no page: no list has so many."""


class Pages(PageNumberPagination):
    """?page= from 1, ?page_size= up to 500; a larger one gives 500. What is no number is refused."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500
    last_page_strings = ()

    def get_page_size(self, request: Request) -> int:
        return min(self._number(request, "page_size", self.page_size), self.max_page_size)

    def get_page_number(self, request: Request, paginator: Any) -> int:
        return self._number(request, self.page_query_param, 1)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        number = {"type": "integer", "minimum": 1}
        size = f"rows a page; {self.page_size} without it, at most {self.max_page_size}"
        return [
            {
                "name": "page",
                "in": "query",
                "schema": {**number, "maximum": 10**DIGITS - 1},
                "description": "counted from 1; one past the end is 404",
            },
            {
                "name": "page_size",
                "in": "query",
                "schema": {**number, "maximum": 10**DIGITS - 1},
                "description": size,
            },
        ]

    def _number(self, request: Request, name: str, default: int) -> int:
        text = request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS and int(text) > 0):
            raise ValidationError({name: ["give a whole number from 1 on"]})
        return int(text)
