"""Points become the extender's scores: the best node alone gets 10, the others at most 9. Pure.

So that our word decides where only it counts, equals are told apart by the nodes' fixed order; with a fresh
random choice among equals any policy is worse than best fit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.scheduling.extender.wire import MOST_SCORE

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def best_of(points: Floats, order: Ints) -> int:
    """The place of the best: most points, then the least in the order, then the first."""
    tied = np.flatnonzero(points == points.max())
    return int(tied[np.argmin(order[tied])])


def scores_of(points: Floats, order: Ints) -> Ints:
    """0 to 10 for each of one node or more."""
    low, high = float(points.min()), float(points.max())
    if high > low:
        scores = np.floor((MOST_SCORE - 1) * (points - low) / (high - low)).astype(np.int64)
    else:
        scores = np.full(len(points), MOST_SCORE - 1, dtype=np.int64)
    scores[best_of(points, order)] = MOST_SCORE
    return scores
