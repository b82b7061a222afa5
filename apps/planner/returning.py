"""Moves that would undo earlier ones: a pod that comes back to a node it was moved off is moved in circles.

Two goals (or two people) may each have a reason to move the same pod, one there and one back. What was
moved when is the caller's to know. Not in here: whether a pod may be moved at all (movability).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apps.planner.plan import Move

COOL_DOWN_SECONDS = 2 * 3600.0
MOST_MOVES = 2


@dataclass(frozen=True, slots=True)
class Moved:
    """A move that was carried out: the pod that went, the one that came for it, from where to where."""

    pod_uid: str
    successor_uid: str
    source: str
    target: str


def find_returns(
    moves: Iterable[Move], history: Iterable[Moved], seconds: float = COOL_DOWN_SECONDS
) -> dict[str, str]:
    """By the pod's UID: one sentence, for each move that takes a pod back, or moves it once more after
    `MOST_MOVES`.

    history: of the last `seconds`. A pod is followed through the successors of its moves.
    """
    by_successor = {one.successor_uid: one for one in history if one.successor_uid}
    hours = f"{seconds / 3600:.3g} h"
    said: dict[str, str] = {}
    for move in moves:
        earlier = list(_followed(move.pod_uid, by_successor))
        if any(one.source == move.target for one in earlier):
            said[move.pod_uid] = (
                f"it was moved off {move.target} within the last {hours}: this would undo it."
            )
        elif len(earlier) >= MOST_MOVES:
            said[move.pod_uid] = (
                f"it was moved {len(earlier)} times within the last {hours}: it is left where it is."
            )
    return said


def _followed(uid: str, by_successor: dict[str, Moved]) -> Iterator[Moved]:
    seen: set[str] = set()
    while uid in by_successor and uid not in seen:
        seen.add(uid)
        yield by_successor[uid]
        uid = by_successor[uid].pod_uid
