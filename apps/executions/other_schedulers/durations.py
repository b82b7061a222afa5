"""Durations as Go programs write them ("1m30s", "-1s", "250ms"), in seconds."""

from __future__ import annotations

import math
import re

UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
WHOLE = re.compile(rf"(?:{PART.pattern})+")
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
LONGEST_TEXT = 64


def read_duration(value: object) -> float | None:
    """Seconds, None for what is no duration. A bare number is taken as seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if len(text) > LONGEST_TEXT:
        return None
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.lstrip("+-")
    if NUMBER.fullmatch(text):
        seconds = float(text)
    elif WHOLE.fullmatch(text):
        seconds = sum(float(number) * UNITS[unit] for number, unit in PART.findall(text))
    else:
        return None
    return sign * seconds if math.isfinite(seconds) else None


def tell_seconds(seconds: float) -> str:
    """Told as "60 s"; in minutes from ten minutes on, in hours from two hours on."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
