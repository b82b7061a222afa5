"""A series as it stands in a text or an answer, before anybody asks what it measures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.prometheus.errors import BadMetrics

LONGEST_VALUE = 1024
MOST_WARNINGS = 20
MOST_SERIES = 400_000
"""Ten thousand GPUs with forty series each."""
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def clean(text: str, longest: int = LONGEST_VALUE) -> str:
    """Text from outside as it can be stored and shown: no control, direction or surrogate characters."""
    if not (text.isascii() and text.isprintable()):
        text = _UNSEEN.sub("�", text)
    return text if len(text) <= longest else text[:longest]


def warn(warnings: list[str], text: str) -> None:
    """One more, as long as there are few; the last one says that there are more."""
    if len(warnings) < MOST_WARNINGS:
        warnings.append(text)
    elif len(warnings) == MOST_WARNINGS:
        warnings.append("there is more like this, which is not listed")


@dataclass(frozen=True, slots=True)
class Series:
    """One sample of one series. value: as told, NaN and infinite included. at: its own time, if told.

    scrape: counts the scrapes that stand in one text one after the other, 0 for the first.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None = None
    scrape: int = 0


@dataclass(slots=True)
class Collection:
    """What one text or answer holds. series: each once, the last value of it. told: how many lines or
    entries there were, repetitions included. help: what the exporter says of a metric."""

    dialect: str
    series: list[Series] = field(default_factory=list)
    told: int = 0
    help: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def count(self) -> None:
        """One more. Raises BadMetrics."""
        self.told += 1
        if self.told > MOST_SERIES:
            raise BadMetrics(f"there are more than {MOST_SERIES:,} series in it: give fewer at once.")

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.series}
