"""The account of one execution summed up, and for how long nobody looked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from apps.executions.gpu_hours.gaining import Gain
from apps.executions.gpu_hours.losing import Loss

LATE_SECONDS = 1800.0
"""Two looks further apart than that have a gap between them."""


class Sums(TypedDict):
    """work, away: GPU-hours lost by pods that left, before and after their eviction. unlocked, freed:
    GPU-hours won. left: pods that left; of these without_checkpoint, and still_away."""

    work: float
    away: float
    unlocked: float
    freed: float
    left: int
    without_checkpoint: int
    still_away: int


def sum_up(losses: Sequence[Loss], gains: Sequence[Gain]) -> Sums:
    left = [one for one in losses if one.evicted_at is not None]
    return Sums(
        work=round(sum(one.work_hours for one in left), 3),
        away=round(sum(one.away_hours for one in left), 3),
        unlocked=round(sum(one.hours for one in gains if one.is_unlocked), 3),
        freed=round(sum(one.hours for one in gains if not one.is_unlocked), 3),
        left=len(left),
        without_checkpoint=sum(not one.has_checkpoint for one in left),
        still_away=sum(one.is_open for one in left),
    )


def unseen_seconds(looks: Sequence[float], since: float, until: float) -> float:
    """How much of the time between the two lies in gaps between looks; epoch seconds, looks in order."""
    times = [since, *(at for at in looks if since < at < until), until]
    gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    return sum(gap for gap in gaps if gap > LATE_SECONDS)
