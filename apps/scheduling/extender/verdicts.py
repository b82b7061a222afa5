"""What the extender said and why, kept for "why there?".

Not in here: rows (whoever implements the sink writes them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from apps.planner.whatif_scores import ScorePart

MOST_KEPT = 1000
MOST_TOP = 3


@dataclass(frozen=True, slots=True)
class TopNode:
    """score: as told, 0 to 10. points: of the policy, with the parts that they add up to. device: the place
    of the GPU that the points of a share stand for, None where they name none (its scheduler chooses)."""

    node: str
    score: int
    points: float
    parts: tuple[ScorePart, ...] = ()
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer. verb: "filter", "prioritize", "bind" or "preempt". at: epoch seconds. age: of the picture,
    in seconds. offered, fitting: numbers of nodes. refused: sentence -> number of nodes. top: the best nodes
    first. note: what else was decided, such as a stale picture. node: where it was bound."""

    verb: str
    at: float
    pod_uid: str
    pod_key: str
    policy: str
    age: float
    offered: int = 0
    fitting: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    top: tuple[TopNode, ...] = ()
    note: str = ""
    node: str = ""


class VerdictSink(Protocol):
    def keep(self, verdict: Verdict) -> None:
        """Called within a scheduler's call: it must return at once."""


class RecentVerdicts:
    """The newest ones in memory."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: deque[Verdict] = deque(maxlen=most)

    def keep(self, verdict: Verdict) -> None:
        self._kept.append(verdict)

    def of_pod(self, uid: str) -> tuple[Verdict, ...]:
        """Newest first."""
        return tuple(one for one in reversed(self._kept) if one.pod_uid == uid)

    def all(self) -> tuple[Verdict, ...]:
        return tuple(self._kept)
