"""The scheduling queue: active pods by priority, pods in back-off, pods that nothing can place yet.

Not here: why a pod could not be placed, and which change of the cluster may help.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from apps.simulator.controllers.pace import Pace
from apps.simulator.controllers.scheduler.cache import PodFacts

_INITIAL_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 10.0


@dataclass(eq=False)
class QueuedPod:
    """since: order among pods of one priority. tried_at: end of the last attempt. missed: something that may
    help happened while it was being tried."""

    pod: PodFacts
    since: int
    attempts: int = 0
    tried_at: float = 0.0
    place: str = "active"
    missed: bool = False


class SchedulingQueue:
    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._entries: dict[str, QueuedPod] = {}
        self._active: list[tuple[float, int, str]] = []
        self._backing_off: list[tuple[float, int, str]] = []
        self._failed: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._filled = asyncio.Event()
        self._parked: set[str] = set()
        self._trying: QueuedPod | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def add(self, pod: PodFacts) -> None:
        entry = self._entries[pod.uid] = QueuedPod(pod, next(self._order))
        self._activate(entry)

    def refresh(self, pod: PodFacts) -> None:
        """A newer reading of a pod that waits here; its place stays."""
        self._entries[pod.uid].pod = pod

    def remove(self, uid: str) -> bool:
        self._parked.discard(uid)
        return self._entries.pop(uid, None) is not None

    async def pop(self) -> QueuedPod:
        """Active pods first; a pod in back-off only when nothing else is to be done. One whose attempt ended
        in an error waits to the end of its back-off: what failed would be asked without a pause otherwise."""
        while True:
            self._end_backoffs()
            entry = self._take(self._active, "active") or self._take(self._backing_off, "backoff")
            if entry:
                entry.place = "trying"
                entry.attempts += 1
                entry.missed = False
                self._trying = entry
                return entry
            self._filled.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._filled.wait(), self._until_next_failed())

    def _take(self, heap: list[tuple[float, int, str]], place: str) -> QueuedPod | None:
        while heap:
            _, since, uid = heapq.heappop(heap)
            entry = self._entries.get(uid)
            if entry and entry.place == place and entry.since == since:
                return entry
        return None

    def _end_backoffs(self) -> None:
        moment = asyncio.get_running_loop().time()
        for heap, place in ((self._backing_off, "backoff"), (self._failed, "failed")):
            while heap and heap[0][0] <= moment:
                entry = self._take(heap[:1], place)
                heapq.heappop(heap)
                if entry:
                    self._activate(entry)

    def _until_next_failed(self) -> float | None:
        if not self._failed:
            return None
        return max(self._failed[0][0] - asyncio.get_running_loop().time(), 0.0)

    def fail(self, entry: QueuedPod) -> None:
        """The attempt ended in an error; tried again after its back-off, whatever happens meanwhile."""
        if self.holds(entry):
            entry.tried_at = asyncio.get_running_loop().time()
            entry.place = "failed"
            heapq.heappush(self._failed, (entry.tried_at + self._backoff(entry), entry.since, entry.pod.uid))

    def park(self, entry: QueuedPod) -> None:
        """Nothing fits now; waits for a change of the cluster."""
        if not self.holds(entry):
            return
        entry.tried_at = asyncio.get_running_loop().time()
        entry.place = "parked"
        self._parked.add(entry.pod.uid)
        if entry.missed:
            self.wake(entry.pod.uid)

    def holds(self, entry: QueuedPod) -> bool:
        """Is it still this entry's turn, or was its pod taken away while it was being tried?"""
        return self._entries.get(entry.pod.uid) is entry

    def wake(self, uid: str) -> None:
        """Try again; after its back-off, or earlier when the scheduler is idle."""
        entry = self._entries.get(uid)
        if entry is not None and entry.place == "trying":
            entry.missed = True
        if entry is None or entry.place != "parked":
            return
        self._parked.discard(uid)
        entry.place = "backoff"
        heapq.heappush(self._backing_off, (entry.tried_at + self._backoff(entry), entry.since, uid))
        self._filled.set()

    def wake_where(self, helps: Callable[[PodFacts], bool] = lambda pod: True) -> None:
        for uid in [uid for uid in self._parked if helps(self._entries[uid].pod)]:
            self.wake(uid)
        if self._trying and self._trying.place == "trying" and helps(self._trying.pod):
            self._trying.missed = True

    def _activate(self, entry: QueuedPod) -> None:
        entry.place = "active"
        heapq.heappush(self._active, (-entry.pod.priority, entry.since, entry.pod.uid))
        self._filled.set()

    def _backoff(self, entry: QueuedPod) -> float:
        simulated = min(_INITIAL_BACKOFF_SECONDS * 2 ** (entry.attempts - 1), _MAX_BACKOFF_SECONDS)
        return self._pace.seconds(simulated)
