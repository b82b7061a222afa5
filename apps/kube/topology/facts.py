"""Plain values out of JSON that anybody may have written. Nothing here raises.

Small on purpose: this package is imported by `translate`, whose own readers of values it cannot use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from apps.kube.topology.text import CLEANED

NOTHING: Mapping[str, Any] = {}


def clean(value: object, longest: int = 4096) -> str:
    """Text as it can be stored and shown, without control and bidi characters; "" for anything else."""
    if not isinstance(value, str):
        return ""
    if value.isascii() and value.isprintable():
        return value[:longest].strip()
    text = value[:longest].encode("utf-8", "replace").decode("utf-8")
    return text.translate(CLEANED).replace("\n", " ").strip()


def child(found: object, *keys: str) -> Mapping[str, Any]:
    """The mapping under a chain of keys; an empty one where anything on the way is missing."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else NOTHING


def entries(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings in the list under `key`."""
    value = found.get(key)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def whole_or_none(value: object) -> int | None:
    """A whole number of at most nine digits, also written as text."""
    if isinstance(value, bool):
        return None
    text = str(value).strip() if isinstance(value, str) and len(value) <= 12 else value
    if isinstance(text, str):
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None
    return text if isinstance(text, int) and abs(text) < 10**9 else None


def node_number(value: object) -> int | None:
    """A NUMA node; None for -1, which the kernel says where it does not know."""
    found = whole_or_none(value)
    return found if found is not None and 0 <= found < 4096 else None


def seconds_of(value: object) -> float | None:
    """An RFC 3339 time as seconds since the epoch."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
