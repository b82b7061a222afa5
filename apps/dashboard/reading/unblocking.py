"""What would let a waiting workload start, asked of the planner beside the page and kept for a while.

A cluster changes every second or so, and planning takes longer than reading. So an answer stands for a
while, with the picture that it was found on, before it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from apps.clusters.models import Cluster, Snapshot
from apps.pending import asking
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.unblocking import tell_unblocking
from apps.planner.waiting import WaitingWorkload

FRESH_SECONDS = 30.0
REST = 20
"""After each second of planning so many seconds without, so that a large cluster's queue costs the server
little however often it is looked at."""
REMEMBERED = 256
MOST_ASKED = 5
"""So many different workloads at the head of the queue are asked about by the page itself; the rest when
somebody simulates."""
_lock = threading.Lock()
_asking = threading.Lock()
_told: OrderedDict[tuple[object, ...], Unblocking] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Unblocking:
    """snapshot_id: of the row it was found on. fresh_until: on the monotonic clock."""

    sentence: str
    snapshot_id: int
    fresh_until: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self.fresh_until


def likeness(waiting: WaitingWorkload) -> tuple[object, ...]:
    """Equal for pods of one owner that wait for the same thing: one answer is enough for all of them."""
    asked = (waiting.gpus_per_pod, len(waiting.pods), waiting.link, tuple(sorted(waiting.profiles.items())))
    return (waiting.namespace, waiting.display, *asked, waiting.priority, waiting.reason_code)


def known_unblocking(cluster: Cluster, waiting: WaitingWorkload) -> Unblocking | None:
    """The last answer, old ones too; None where nobody asked."""
    with _lock:
        return _told.get((cluster.pk, *likeness(waiting)))


def find_unblocking(
    cluster: Cluster, row: Snapshot, picture: Picture, waiting: WaitingWorkload
) -> Unblocking:
    """The last answer if it is fresh, else a new one."""
    with _asking:
        known = known_unblocking(cluster, waiting)
        if known is not None and known.is_fresh:
            return known
        begun = time.monotonic()
        plan = asking.unlock(picture, waiting)
        ended = time.monotonic()
        fresh = max(FRESH_SECONDS, REST * (ended - begun))
        found = Unblocking(tell_unblocking(plan), row.pk, fresh_until=ended + fresh)
        with _lock:
            _told[cluster.pk, *likeness(waiting)] = found
            while len(_told) > REMEMBERED:
                _told.popitem(last=False)
    return found
