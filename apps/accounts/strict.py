"""Request bodies that say exactly what they mean: a field that nobody knows is refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers
from rest_framework.request import Request


class StrictSerializer(serializers.Serializer):
    """Base of everything that is read from a body."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = set(data) - set(self.fields) if isinstance(data, Mapping) else set()
        if unknown:
            words = f"there is no such field; known are {', '.join(self.fields)}"
            raise serializers.ValidationError(
                {str(name)[:100]: [words] for name in sorted(unknown, key=str)[:20]}
            )
        return super().to_internal_value(data)


def checked(kind: type[serializers.Serializer], request: Request, *, partial: bool = False) -> dict[str, Any]:
    """What the body says, by field. Raises ValidationError. partial: only what is named."""
    parsed = kind(data=request.data, partial=partial)
    parsed.is_valid(raise_exception=True)
    return parsed.validated_data


class Truth(serializers.BooleanField):
    """true or false, not 0 or "yes"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class StrictScheme(OpenApiSerializerExtension):
    target_class = "apps.accounts.strict.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**schema, "additionalProperties": False}
