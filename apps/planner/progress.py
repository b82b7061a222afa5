"""What a search tells while it runs, so that people see how far it is. Facts only; the planner keeps none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """stage: what is being done, a short sentence. achieved: of the best plan so far, in what its goal
    counts (freed nodes, unlocked GPUs, served compute slices); None while there is no plan yet.
    moves: of that plan. bound: on `achieved`, None where none is known yet."""

    stage: str
    achieved: int | None = None
    moves: int = 0
    bound: int | None = None


Tell = Callable[[Progress], None]


def tell_nobody(_: Progress) -> None:
    """For callers that only want the answer."""
