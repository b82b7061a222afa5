"""Reads values out of API objects that anybody in the cluster may have written.

Every function takes whatever it gets and answers with a plain value of the promised type. Text is
made storable (no lone surrogates, no NUL); numbers are kept within 63 bits. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from apps.planner.resources import parse_quantity

Warn = Callable[[str], None]
NOTHING: Mapping[str, Any] = {}
LARGEST = 2**62
LARGEST_AMOUNT = 2**50
"""Of one resource of one object, a PiB if it is bytes: thousands of them still add up within 63 bits."""
LONGEST_TEXT = 4096
MOST_TEXTS = 5_000
"""Of labels or annotations on one object: no API server takes as many, so it matters not which are read."""
LONGEST_QUANTITY = 40


def clean(value: object, longest: int = LONGEST_TEXT) -> str:
    """Text as it can be stored and shown; "" for anything that is no text."""
    if not isinstance(value, str):
        return ""
    if value.isascii() and "\x00" not in value and len(value) <= longest:
        return value
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode("utf-8")
    if "\x00" in value:
        value = value.replace("\x00", "�")
    return value if len(value) <= longest else value[:longest]


def brief(value: object) -> str:
    """A value as a warning may quote it."""
    text = clean(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def child(found: object, *keys: str) -> Mapping[str, Any]:
    """The mapping under a chain of keys; an empty one where anything on the way is missing."""
    for key in keys:
        if not isinstance(found, dict):
            return NOTHING
        found = found.get(key)
    return found if isinstance(found, dict) else NOTHING


def entries(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings in the list under `key`."""
    value = found.get(key)
    if not value or not isinstance(value, list):
        return []
    return [entry for entry in value if isinstance(entry, dict)]


def texts(found: Mapping[str, Any], longest: int = LONGEST_TEXT) -> dict[str, str]:
    """Labels or annotations: those whose key and value are text."""
    pairs: Iterable[tuple[str, Any]] = found.items()
    if len(found) > MOST_TEXTS:
        pairs = islice(pairs, MOST_TEXTS)
    return {clean(key): clean(value, longest) for key, value in pairs if isinstance(value, str)}


def text_list(value: object) -> tuple[str, ...]:
    return tuple(clean(one) for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def whole(value: object, default: int = 0) -> int:
    """An integer (also written as text), within 63 bits."""
    if isinstance(value, bool):
        return default
    if isinstance(value, str) and len(value) <= LONGEST_QUANTITY and value.strip().lstrip("+-").isdecimal():
        value = int(value)
    if not isinstance(value, int):
        return default
    return max(-LARGEST, min(LARGEST, value))


def whole_or_none(value: object) -> int | None:
    found = whole(value, LARGEST)
    return None if found == LARGEST else found


def seconds_of(value: object) -> float | None:
    """An RFC 3339 time as seconds since the epoch, if it is in the years 1 to 9999 of UTC as well."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def quantities(
    found: Mapping[str, Any], warn: Warn, where: str, *, are_asked: bool = False
) -> dict[str, int]:
    """Resource amounts; one that cannot be read is left out with a warning. are_asked: what a pod asks for:
    more than any node has is as much as can be told of it, since leaving it out would let the pod fit."""
    amounts: dict[str, int] = {}
    for name, value in found.items():
        amount = _quantity(name, value)
        if amount is None and are_asked and _is_vast(value):
            amount = LARGEST_AMOUNT
        if amount is None:
            warn(f"{where}: the amount {brief(value)!r} of {brief(name)} cannot be read")
        else:
            amounts[clean(name)] = amount
    return amounts


def _quantity(name: str, value: object) -> int | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, str | int | float)
        or len(str(value)) > LONGEST_QUANTITY
    ):
        return None
    return _parse(value, name == "cpu")


def _is_vast(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)) > LONGEST_QUANTITY:
        return False
    try:
        return parse_quantity(value) > LARGEST_AMOUNT
    except (ValueError, ArithmeticError):
        return False


def amounts(found: Mapping[str, Any]) -> dict[str, float]:
    """Amounts of resources as queues count them, fractions kept; what cannot be read is left out."""
    read = {clean(name, 320): amount_of(value, name) for name, value in islice(found.items(), MOST_TEXTS)}
    return {name: amount for name, amount in read.items() if amount is not None}


def amount_of(value: object, resource: str) -> float | None:
    """CPU in millicores, memory in bytes, all else counted, to a thousandth."""
    if resource == "memory" or resource.startswith(("hugepages-", "ephemeral-storage")):
        found = _quantity(resource, value)
        return None if found is None else float(found)
    found = _quantity("cpu", value)
    return None if found is None else float(found) / (1 if resource == "cpu" else 1000)


def number(value: object, default: float) -> float:
    """A JSON number, as a finite one within 63 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return default
    return float(value)


@lru_cache(maxsize=10_000)
def _parse(value: str | int | float, is_cpu: bool) -> int | None:
    """A cluster uses few different amounts, many times each."""
    try:
        amount = parse_quantity(value, "cpu" if is_cpu else "")
    except (ValueError, ArithmeticError):
        return None
    return amount if 0 <= amount <= LARGEST_AMOUNT else None
