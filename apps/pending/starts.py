"""When what waits is expected to start: the planner's replay of known ends, found in a bounded time and kept
for a while, since a page asks with every refresh."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping

from apps.clusters.models import Cluster
from apps.pending.history import known_runs, known_starts
from apps.pending.queries import waiting_workloads
from apps.planner.expected_start import ExpectedStart, Facts, expect_starts
from apps.planner.run_lengths import joined, runs_in
from apps.planner.snapshot import Snapshot
from apps.planner.start_times import StartTimes, measure_starts

SECONDS = 1.0
REST = 20
"""After each second of replaying so many without."""
REMEMBERED = 8
_lock = threading.Lock()
_known: OrderedDict[int, tuple[Snapshot, float, Mapping[str, ExpectedStart]]] = OrderedDict()


def expected_starts(cluster: Cluster, snapshot: Snapshot) -> Mapping[str, ExpectedStart]:
    """By the key of what waits; of a workload that came since the last replay nothing is told yet."""
    with _lock:
        known = _known.get(cluster.pk)
        if known is not None and (known[0] is snapshot or time.monotonic() < known[1]):
            return known[2]
        begun = time.monotonic()
        found = _replay(cluster, snapshot, until=begun + SECONDS)
        ended = time.monotonic()
        _known[cluster.pk] = snapshot, ended + REST * (ended - begun), found
        _known.move_to_end(cluster.pk)
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
        return found


def _replay(cluster: Cluster, snapshot: Snapshot, until: float) -> Mapping[str, ExpectedStart]:
    waiting = waiting_workloads(snapshot)
    if not waiting:
        return {}
    facts = Facts(
        runs=joined((known_runs(cluster), runs_in(snapshot))),
        starts=StartTimes(known_starts(cluster), measure_starts(snapshot)),
    )
    return expect_starts(snapshot, waiting, facts, lambda: time.monotonic() >= until)
