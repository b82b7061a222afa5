"""The sliding window: how busy a unit was over the last minutes, if enough of them are measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Use:
    """average: percent over the window, None where it is not measured, which `reason` explains.

    minutes: how many of the window's are measured. of: how many it has.
    """

    average: float | None
    minutes: int
    of: int
    reason: str = ""

    def is_low(self, below: float) -> bool:
        """Not measured is never low."""
        return self.average is not None and self.average < below


def minute_of(at: float) -> float:
    """The beginning of the minute."""
    return at - at % MINUTE


def average_use(
    minutes: Iterable[tuple[float, Mapping[str, tuple[float, int]]]],
    since: Mapping[str, float],
    *,
    of: int,
    least: int,
) -> dict[str, Use]:
    """By unit. minutes: (beginning, sums) of the window. since: units that count only from then on.

    Each minute weighs the same, however many samples it has.
    """
    sums: dict[str, tuple[float, int]] = {}
    for beginning, told in minutes:
        for unit, (total, count) in told.items():
            if count and beginning + MINUTE > since.get(unit, 0.0):
                before, known = sums.get(unit, (0.0, 0))
                sums[unit] = (before + total / count, known + 1)
    return {
        unit: Use(total / count, count, of) if count >= least else Use(None, count, of, too_few(count, of))
        for unit, (total, count) in sums.items()
    }


def too_few(count: int, of: int) -> str:
    return f"only {count} of the last {of} minutes are measured" if count else f"not measured in {of} minutes"
