"""Query parameters and numbers in them: one clear refusal for what cannot be used, also for an empty one."""

from __future__ import annotations

from typing import Any

import django_filters
from django import forms
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

TRUE, FALSE = ("true", "1"), ("false", "0")
LARGEST = 10**15
"""Beyond any number of a row."""
ROW = {"type": "integer", "minimum": 0, "maximum": LARGEST}
NUMBER_WORDS = "give a whole number from {least} to {most}"


def read_whole(text: str, least: int = 0, most: int = LARGEST) -> int:
    """Raises ValueError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and least <= int(text) <= most):
        raise ValueError(NUMBER_WORDS.format(least=least, most=most))
    return int(text)


def whole_number(request: Request, name: str, default: int, *, least: int = 0, most: int = LARGEST) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        return read_whole(text, least, most)
    except ValueError as error:
        raise ValidationError({name: [str(error)]}) from error


def yes_or_no(request: Request, name: str) -> bool | None:
    """None where it is not asked."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if text.lower() not in (*TRUE, *FALSE):
        raise ValidationError({name: ["write true or false"]})
    return text.lower() in TRUE


def plain_text(request: Request, name: str) -> str:
    """ "" where it is not asked."""
    text = request.query_params.get(name, "")
    if "\x00" in text:
        raise ValidationError({name: ["a name has no NUL characters"]})
    return text


class RowField(forms.CharField):
    def to_python(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            return read_whole(str(value))
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


@extend_schema_field(ROW)
class RowFilter(django_filters.Filter):
    """By the number of a row."""

    field_class = RowField
