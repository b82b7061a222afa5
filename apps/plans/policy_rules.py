"""What may stand in a cluster's policy: each value checked, or one sentence about what is wrong with it.

Reads no rows and changes none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from apps.plans.disruption import COUNTS, SCOPES, UNAVAILABLE
from apps.plans.errors import InvalidPolicy
from apps.plans.freezes import DAYS, window_from_dict, zone_names

MOST_PATTERNS, MOST_WINDOWS = 200, 50
LONGEST_REASON = 200
LONGEST_DAYS = 366
EARLIEST, LATEST = date(2000, 1, 1), date(2200, 1, 1)
PATTERN = re.compile(r"[a-z0-9*?]([a-z0-9*?-]{0,61}[a-z0-9*?])?")
CLOCK = re.compile(r"(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)")
LIMITS: dict[str, tuple[int, int]] = {
    "max_moves_per_plan": (1, 5000),
    "max_seconds_per_plan": (1, 600),
    "max_concurrent_executions": (1, 100),
    "max_evictions_in_flight": (1, 1000),
    "max_evictions_per_hour": (1, 10_000),
    "workload_cool_down_seconds": (60, 30 * 86400),
    "max_moves_per_workload_per_day": (1, 1000),
    "approval_expires_after_seconds": (300, 30 * 86400),
    "fallback_after_seconds": (30, 30 * 86400),
    "fallback_above_mib": (1, 1024 * 1024),
    "fallback_step_mib": (1, 1024 * 1024),
}
"""Lowest and highest value; none at all means no limit of the cluster's own."""
SWITCHES = ("may_preempt", "only_offered", "requires_ticket")
WINDOWS = {"freeze_windows": "freeze window", "maintenance_windows": "maintenance window"}
MOST_BUDGETS, MOST_AWAY = 100, 10_000
PLACE = re.compile(r"[-A-Za-z0-9._*?]{1,253}(/[-A-Za-z0-9._*?]{1,253})?")
WINDOW_FIELDS = {"weekdays", "first_day", "last_day", "start", "end", "time_zone", "reason"}


def checked_policy(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as they are stored. Raises InvalidPolicy for the first that cannot be used."""
    return {field: _check_of(field)(wishes[field]) for field in wishes}


def _check_of(field: str) -> Callable[[Any], Any]:
    if field == "protected_namespaces":
        return _namespaces
    if field in WINDOWS:
        return lambda value: _windows(field, value)
    if field == "disruption_budgets":
        return _budgets
    if field in SWITCHES:
        return lambda value: _yes_or_no(field, value)
    if field in LIMITS:
        return lambda value: _limit(field, value)
    raise InvalidPolicy(field, f"{field!r} is no part of a policy")


def _limit(field: str, value: Any) -> int | None:
    low, high = LIMITS[field]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidPolicy(field, f"{field} is {value!r:.40}: take {low} to {high}, or none for no limit")
    return value


def _yes_or_no(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidPolicy(field, f"{field} is {value!r:.40}: take true or false")
    return value


def _namespaces(value: Any) -> list[str]:
    field = "protected_namespaces"
    if not isinstance(value, list) or len(value) > MOST_PATTERNS:
        raise InvalidPolicy(field, f"{field} must be a list of at most {MOST_PATTERNS} names")
    for name in value:
        if not isinstance(name, str) or not PATTERN.fullmatch(name):
            raise InvalidPolicy(
                field, f"{name!r:.80} is no namespace: small letters, digits and -, with * and ? as wildcards"
            )
    return list(dict.fromkeys(value))


def _budgets(value: Any) -> list[dict[str, Any]]:
    field = "disruption_budgets"
    if not isinstance(value, list) or len(value) > MOST_BUDGETS:
        raise InvalidPolicy(field, f"{field} must be a list of at most {MOST_BUDGETS} budgets")
    return [_budget(told, number) for number, told in enumerate(value, start=1)]


def _budget(told: Any, number: int) -> dict[str, Any]:
    try:
        if not isinstance(told, dict) or not set(told) <= {"scope", "name", "at_most", "counts"}:
            raise ValueError("give an object with scope, name, at_most and counts")
        scope, name = told.get("scope"), told.get("name") or "*"
        at_most, counts = told.get("at_most"), told.get("counts") or UNAVAILABLE
        if scope not in SCOPES:
            raise ValueError(f"scope must be one of {', '.join(SCOPES)}")
        if not isinstance(name, str) or not PLACE.fullmatch(name):
            raise ValueError(f"{name!r:.80} names no place: letters, digits, . _ / and -, with * and ?")
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MOST_AWAY:
            raise ValueError(f"at_most is {at_most!r:.40}: take 1 to {MOST_AWAY}")
        if counts not in COUNTS:
            raise ValueError(f"counts must be one of {', '.join(COUNTS)}")
    except ValueError as error:
        raise InvalidPolicy("disruption_budgets", f"disruption budget {number}: {error}") from error
    return {"scope": scope, "name": name, "at_most": at_most, "counts": counts}


def _windows(field: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > MOST_WINDOWS:
        raise InvalidPolicy(field, f"{field} must be a list of at most {MOST_WINDOWS} windows")
    return [_window(field, told, number) for number, told in enumerate(value, start=1)]


def _window(field: str, told: Any, number: int) -> dict[str, Any]:
    try:
        if not isinstance(told, dict) or not set(told) <= WINDOW_FIELDS:
            raise ValueError(f"give an object with {', '.join(sorted(WINDOW_FIELDS))}")
        days, first, last = (told.get(name) or None for name in ("weekdays", "first_day", "last_day"))
        if (days is None) == (first is None and last is None):
            raise ValueError("give weekdays, or first_day and last_day")
        hours = {**_hours(told), **_zone(told), **_reason(told)}
        return {**_weekdays(days), **hours} if days else _dated(first, last, hours)
    except ValueError as error:
        raise InvalidPolicy(field, f"{WINDOWS[field]} {number}: {error}") from error


def _hours(told: Mapping[str, Any]) -> dict[str, str]:
    for name in ("start", "end"):
        text = told.get(name)
        if not isinstance(text, str) or not CLOCK.fullmatch(text):
            raise ValueError(f"{name} must be a time of day such as 18:00, not {text!r:.40}")
    if told["start"] == "24:00":
        raise ValueError("it cannot start at 24:00: take 00:00 of the next day")
    return {"start": told["start"], "end": told["end"]}


def _zone(told: Mapping[str, Any]) -> dict[str, str]:
    zone = told.get("time_zone")
    if not isinstance(zone, str) or zone not in zone_names():
        raise ValueError(f"{zone!r:.60} is no time zone: take one such as Europe/Berlin or UTC")
    return {"time_zone": zone}


def _reason(told: Mapping[str, Any]) -> dict[str, str]:
    reason = told.get("reason")
    if not isinstance(reason, str) or not reason.strip() or not reason.isprintable():
        raise ValueError("say in one line why (reason)")
    if len(reason) > LONGEST_REASON:
        raise ValueError(f"the reason has more than {LONGEST_REASON} characters")
    return {"reason": reason.strip()}


def _weekdays(days: Any) -> dict[str, list[str]]:
    if not isinstance(days, list) or not all(isinstance(day, str) and day in DAYS for day in days):
        raise ValueError(f"weekdays must be some of {', '.join(DAYS)}")
    return {"weekdays": [day for day in DAYS if day in days]}


def _dated(first_day: Any, last_day: Any, hours: dict[str, str]) -> dict[str, Any]:
    first, last = _day(first_day), _day(last_day)
    if first is None or last is None:
        raise ValueError("first_day and last_day must both be days such as 2026-12-24")
    if not 0 <= (last - first).days <= LONGEST_DAYS:
        raise ValueError(f"it must end on its first day or later, and last {LONGEST_DAYS} days at most")
    dated = {"first_day": str(first), "last_day": str(last), **hours}
    if not any(window_from_dict(dated).spans_near(datetime.now(UTC))):
        raise ValueError("it ends before it starts")
    return dated


def _day(value: Any) -> date | None:
    try:
        day = date.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return day if EARLIEST <= day <= LATEST else None
