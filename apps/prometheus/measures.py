"""One sample's number in this project's units, or why it is no measurement. Pure arithmetic."""

from __future__ import annotations

import math

from apps.prometheus.metric_names import Meaning

BLANK = 2147483632.0
"""DCGM writes this and the next few where it has nothing to say; no MiB, watt or percent is so large."""
BLANK_LONG = 9223372036854775792.0
BLANK_FLOAT = 140737488355328.0
LARGEST_MIB = 2.0**24
"""16 TiB: a number of an untold unit that is larger must be bytes."""
MIB = 2.0**20
_MEMORY = ("mib", "bytes", "memory")


def measured(value: float, meaning: Meaning) -> tuple[float | None, str]:
    """(number, "") or (None, why it is none)."""
    blank = blank_reason(value, is_long=meaning.unit in ("bytes", "memory"))
    if blank:
        return None, blank
    if meaning.unit == "celsius":
        return value, ""
    if value < 0:
        return None, f"told as {value:g}, which is negative"
    if meaning.unit in _MEMORY:
        return _mebibytes(value, meaning.unit), ""
    if meaning.unit in ("percent", "ratio"):
        share = value * 100 if meaning.unit == "ratio" else value
        if share > 101:
            return None, f"told as {value:g}, which is more than the whole"
        return round(min(share, 100.0), 6), ""
    return (value / 1000 if meaning.unit == "milliwatts" else value), ""


def blank_reason(value: float, *, is_long: bool = False) -> str:
    """Why a number is a blank, or "". is_long: a count of bytes, which may be greater than 2 GiB."""
    if not math.isfinite(value):
        return "told as NaN" if math.isnan(value) else "told as infinite"
    if value >= BLANK_LONG or BLANK_FLOAT <= value < BLANK_FLOAT + 16 or (value >= BLANK and not is_long):
        return f"told as {value:.0f}, the exporter's blank"
    return ""


def _mebibytes(value: float, unit: str) -> float:
    if unit == "bytes" or (unit == "memory" and value >= LARGEST_MIB):
        return round(value / MIB, 3)
    return value
