"""Query parameters that no filter reads: one clear refusal for what cannot be used."""

from __future__ import annotations

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

TRUE, FALSE = ("true", "1"), ("false", "0", "")


def whole_number(request: Request, name: str, default: int, most: int = 10**15) -> int:
    text = request.query_params.get(name, "")
    if text == "":
        return default
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= most):
        raise ValidationError({name: [f"give a whole number from 0 to {most}"]})
    return int(text)


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
