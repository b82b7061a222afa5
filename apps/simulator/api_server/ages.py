"""How long ago something was, in the words of kubectl."""

from __future__ import annotations

import datetime

UNKNOWN = "<unknown>"


def age_of(text: str | None) -> str:
    """How long ago, in the words of kubectl."""
    if not text:
        return UNKNOWN
    began = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return human((datetime.datetime.now(datetime.UTC) - began).total_seconds())


def human(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _pair(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _pair(large: int, unit: str, small: int, sub: str) -> str:
    return f"{large}{unit}{small}{sub}" if small else f"{large}{unit}"
