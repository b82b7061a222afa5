"""What may stand in a placement policy: each value checked, or one sentence about what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.placing.errors import InvalidPlacement
from apps.placing.states import Scoring, WhenStale

LIMITS: dict[str, tuple[int, int]] = {
    "weight": (1, 1000),
    "stale_after_seconds": (5, 600),
    "reserved_mib": (0, 1_000_000),
    "gang_seconds": (5, 600),
}
"""Lowest and highest value."""
SWITCHES = ("is_ignorable", "binds", "preempts", "spares_drifted", "keeps_rooms")
CHOICES: dict[str, list[str]] = {"scoring": Scoring.values, "when_stale": WhenStale.values}
FIELDS = (*CHOICES, *LIMITS, *SWITCHES)


def checked_placement(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as they are stored. Raises InvalidPlacement for the first that cannot be used."""
    for field, value in wishes.items():
        _check(field, value)
    return dict(wishes)


def _check(field: str, value: Any) -> None:
    if field in CHOICES:
        if value not in CHOICES[field]:
            known = ", ".join(CHOICES[field])
            raise InvalidPlacement(field, f"{field} is {value!r:.40}: choose one of {known}")
    elif field in SWITCHES:
        if not isinstance(value, bool):
            raise InvalidPlacement(field, f"{field} is {value!r:.40}: take true or false")
    elif field in LIMITS:
        low, high = LIMITS[field]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidPlacement(field, f"{field} is {value!r:.40}: take {low} to {high}")
    else:
        raise InvalidPlacement(field, f"{field!r:.40} is no part of a placement policy")
