"""Kubernetes quantities in the canonical text that an API server stores: "0.5" → "500m", "1024Mi" → "1Gi"."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache
from typing import Any

BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
PATTERN = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d+)?$")
COMPLAINT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
MOST_EXPONENT = 100
NANO = Decimal(1).scaleb(-9)


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Decimal:
    """The value as a number of units; ValueError says that it is no quantity."""
    match = PATTERN.match(text)
    if match is None:
        raise ValueError(COMPLAINT)
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in BINARY:
        return number * (1024 ** BINARY[suffix])
    exponent = DECIMAL[suffix] if suffix in DECIMAL else int(suffix[1:])
    if abs(exponent) > MOST_EXPONENT:
        raise ValueError(COMPLAINT)  # a real server works on such a number until its request times out
    return number.scaleb(exponent).quantize(NANO, ROUND_UP) if exponent < 0 else number.scaleb(exponent)


def canonical_quantity(value: Any) -> str:
    """The text that the server stores for a quantity given as text or as a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(COMPLAINT)
    return _canonical(str(value).strip())


@lru_cache(maxsize=8192)
def _canonical(text: str) -> str:
    value = parse_quantity(text)
    match = PATTERN.match(text)
    suffix = (match[2] if match else "") or ""
    if suffix in BINARY and value == value.to_integral_value() and abs(value) >= 1024:
        return _scaled(int(value), 1024, ("", *BINARY))
    if value != value.to_integral_value():
        for exponent, small in ((3, "m"), (6, "u"), (9, "n")):
            scaled = value.scaleb(exponent)
            if scaled == scaled.to_integral_value():
                return f"{int(scaled)}{small}"
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _exponent(int(value))
    return _scaled(int(value), 1000, ("", "k", "M", "G", "T", "P", "E"))


def _scaled(value: int, base: int, suffixes: tuple[str, ...]) -> str:
    step = 0
    while value and value % base == 0 and step < len(suffixes) - 1:
        value, step = value // base, step + 1
    return f"{value}{suffixes[step]}"


def _exponent(value: int) -> str:
    exponent = 0
    while value and value % 1000 == 0:
        value, exponent = value // 1000, exponent + 3
    return f"{value}e{exponent}" if exponent else str(value)


def is_whole(text: str) -> bool:
    value = parse_quantity(text)
    return value == value.to_integral_value()
