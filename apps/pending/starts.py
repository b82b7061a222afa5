"""When what waits is expected to start: the planner's replay of known ends, found beside the requests in a
bounded time and kept for a while, since a page asks with every refresh."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from apps.clusters.models import Cluster
from apps.pending.asking import PlannerBusy, beside
from apps.pending.history import known_runs, known_starts
from apps.pending.queries import waiting_workloads
from apps.planner.expected_start import ExpectedStart, Facts, expect_starts
from apps.planner.run_lengths import joined, runs_in
from apps.planner.snapshot import Snapshot
from apps.planner.start_times import StartTimes, measure_starts

SECONDS = 2.0
REST = 20
"""After each second of replaying so many without."""
REMEMBERED = 8
_lock = threading.Lock()
_known: OrderedDict[int, tuple[Snapshot, float, Starts]] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Starts:
    """by_key: of what waits. tag: another one as soon as any of them is."""

    by_key: Mapping[str, ExpectedStart]
    tag: str


NOT_YET = Starts({}, "")


def expected_starts(cluster: Cluster, snapshot: Snapshot) -> Starts:
    """Of a workload that came since the last replay, or while the planner is busy with the first one,
    nothing is told yet."""
    with _lock:
        known = _known.get(cluster.pk)
    if known is not None and (known[0] is snapshot or time.monotonic() < known[1]):
        return known[2]
    facts = Facts(
        runs=joined((known_runs(cluster), runs_in(snapshot))),
        starts=StartTimes(known_starts(cluster), measure_starts(snapshot)),
    )
    try:
        seconds, found = beside(snapshot, "starts", None, lambda: _replay(snapshot, facts))
    except PlannerBusy:
        return known[2] if known is not None else NOT_YET
    with _lock:
        _known[cluster.pk] = snapshot, time.monotonic() + REST * seconds, found
        _known.move_to_end(cluster.pk)
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return found


def _replay(snapshot: Snapshot, facts: Facts) -> tuple[float, Starts]:
    """How long it took, and what it found."""
    begun = time.monotonic()
    waiting = waiting_workloads(snapshot)
    late = begun + SECONDS
    found = expect_starts(snapshot, waiting, facts, lambda: time.monotonic() >= late) if waiting else {}
    tag = hashlib.sha256(repr(sorted(found.items(), key=lambda pair: pair[0])).encode()).hexdigest()
    return time.monotonic() - begun, Starts(found, tag)
