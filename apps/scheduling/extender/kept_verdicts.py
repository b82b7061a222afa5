"""The sink that keeps verdicts: a queue in memory, emptied by a thread into rows.

A call only appends, so no answer waits for the database. Where that is away or slow the oldest of the queue
are lost and counted, never the answers. Not in here: how long rows are kept (apps.placing).
"""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

from apps.placing import services
from apps.scheduling.extender.verdicts import TopNode, Verdict

MOST_QUEUED = 20_000
MOST_AT_ONCE, PAUSE_SECONDS = 250, 0.02
"""So that a long queue, too, leaves the interpreter to the answers."""
MOST_REASONS = 40
LONGEST = 500


class KeptVerdicts:
    """asked_at: epoch seconds of the newest one, None before the first. lost: how many never became rows."""

    def __init__(self, cluster_id: int, most: int = MOST_QUEUED) -> None:
        self._cluster_id = cluster_id
        self._queue: deque[Verdict] = deque(maxlen=most)
        self._taken = 0
        self._kept = 0
        self.asked_at: float | None = None

    def keep(self, verdict: Verdict) -> None:
        self._queue.append(verdict)
        self._taken += 1
        self.asked_at = verdict.at

    @property
    def lost(self) -> int:
        return self._taken - self._kept - len(self._queue)

    def write(self) -> None:
        """In a thread of its own. Raises DatabaseError; what was being written is then lost."""
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_AT_ONCE))]
            services.keep_verdicts(cluster_id=self._cluster_id, verdicts=[columns_of(one) for one in batch])
            self._kept += len(batch)
            if self._queue:
                time.sleep(PAUSE_SECONDS)


def columns_of(verdict: Verdict) -> dict[str, Any]:
    age = verdict.age
    most = sorted(verdict.refused.items(), key=lambda pair: -pair[1])[:MOST_REASONS]
    return {
        "verb": verdict.verb,
        "at": datetime.fromtimestamp(verdict.at, UTC),
        "pod_uid": verdict.pod_uid[:64],
        "pod_key": verdict.pod_key[:320],
        "scoring": verdict.policy[:20],
        "picture_age_seconds": None if age == float("inf") else round(age, 3),
        "offered": verdict.offered,
        "fitting": verdict.fitting,
        "refused": {sentence[:LONGEST]: nodes for sentence, nodes in most},
        "top": [_top(one) for one in verdict.top],
        "node": verdict.node[:253],
        "note": verdict.note[:LONGEST],
    }


def _top(one: TopNode) -> dict[str, Any]:
    parts = [{"name": part.name, "points": round(part.points, 3), "words": part.words} for part in one.parts]
    return {"node": one.node, "score": one.score, "points": round(one.points, 3), "parts": parts}
