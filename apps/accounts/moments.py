"""Times in query parameters, the same everywhere: RFC 3339 with a zone, turned into UTC.

PostgreSQL takes fewer zones than RFC 3339 allows, so nothing but UTC reaches it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django_filters
from django import forms
from django.utils.dateparse import parse_datetime

EXAMPLE = "give a time with its zone, for example 2026-01-31T12:00:00Z"


def read_moment(text: str) -> datetime:
    """Raises ValueError for anything but a whole time with its zone."""
    # In a query an unescaped "+02:00" arrives as " 02:00".
    moment = parse_datetime(text.strip().replace(" ", "+") if "T" in text else text)
    if moment is None or moment.tzinfo is None:
        raise ValueError(EXAMPLE)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(EXAMPLE) from error


class MomentField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        text = super().to_python(value) or ""
        try:
            return read_moment(text)
        except ValueError as error:
            raise forms.ValidationError(EXAMPLE) from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    field_class = MomentField
