"""What would let a waiting workload start: asked of the planner beside the queue, and kept for a while.

A cluster changes every second or so, and planning takes longer than reading. So an answer stands for a
while, with the picture that it was found on, before it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from apps.clusters.models import Cluster, Snapshot
from apps.pending import asking
from apps.pending.queries import moves_allowed
from apps.planner.gpu_wishes import BAD_REQUEST
from apps.planner.quota import QUEUE_CODES
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.unblocking import tell_preemption, tell_unblocking
from apps.planner.waiting import WaitingWorkload
from apps.planner.waiting_words import TOO_LARGE

FRESH_SECONDS = 30.0
REST = 20
"""After each second of planning so many seconds without, so that a large cluster's queue costs the server
little however often it is looked at."""
REMEMBERED = 256
MOST_ASKED = 5
"""So many different workloads at the head of the queue are asked about with the queue itself; the rest when
somebody simulates."""
NOT_PLANNED = frozenset({"fits", "gated", "gang-incomplete", TOO_LARGE, BAD_REQUEST, *QUEUE_CODES})
"""Reasons that no plan changes: its turn, its gate, its other members, its size, its queue."""
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


def can_help(waiting: WaitingWorkload) -> bool:
    """Whether a plan could let it start at all."""
    wants_gpus = bool(waiting.gpus_per_pod or waiting.profiles)
    return wants_gpus and not waiting.never and waiting.reason_code not in NOT_PLANNED


def likeness(waiting: WaitingWorkload) -> tuple[object, ...]:
    """Equal for pods of one owner that wait for the same thing: one answer is enough for all of them."""
    asked = (waiting.gpus_per_pod, len(waiting.pods), waiting.link, tuple(sorted(waiting.profiles.items())))
    return (waiting.namespace, waiting.display, *asked, waiting.priority, waiting.reason_code)


def known_unblocking(cluster: Cluster, waiting: WaitingWorkload) -> Unblocking | None:
    """The last answer, old ones too; None where nobody asked."""
    with _lock:
        return _told.get((cluster.pk, *likeness(waiting)))


def known_sentence(cluster: Cluster, waiting: WaitingWorkload) -> str:
    """ "" where nobody asked, and where no plan would help."""
    told = known_unblocking(cluster, waiting) if can_help(waiting) else None
    return told.sentence if told is not None else ""


def known_sentences(cluster: Cluster) -> list[tuple[str, str]]:
    """All that is known of one cluster, for an ETag: another list as soon as a sentence is another one."""
    with _lock:
        return sorted((repr(key), told.sentence) for key, told in _told.items() if key[0] == cluster.pk)


def find_unblocking(
    cluster: Cluster, row: Snapshot, picture: Picture, waiting: WaitingWorkload
) -> Unblocking | None:
    """The last answer if it is fresh, else a new one; while others are planned for, the old one or None."""
    known = known_unblocking(cluster, waiting)
    if known is not None and known.is_fresh:
        return known
    if not _asking.acquire(timeout=settings.PLANNER_PATIENCE_SECONDS):
        return known
    try:
        known = known_unblocking(cluster, waiting)
        return known if known is not None and known.is_fresh else _ask(cluster, row, picture, waiting)
    except asking.PlannerBusy:
        return known
    finally:
        _asking.release()


def find_for_first(
    cluster: Cluster, row: Snapshot, picture: Picture, queue: Sequence[WaitingWorkload]
) -> None:
    """Ask about the first few different workloads of a queue, as long as the planner has time for it."""
    first: dict[tuple[object, ...], WaitingWorkload] = {}
    for waiting in filter(can_help, queue):
        if len(first) == MOST_ASKED:
            break
        first.setdefault(likeness(waiting), waiting)
    for waiting in first.values():
        told = find_unblocking(cluster, row, picture, waiting)
        if told is None or not told.is_fresh:
            return


def _ask(cluster: Cluster, row: Snapshot, picture: Picture, waiting: WaitingWorkload) -> Unblocking:
    begun = time.monotonic()
    most = moves_allowed(cluster)
    plan = asking.unlock(picture, waiting, max_moves=most)
    advice = None if plan.unlocked else asking.advise_preemption(picture, waiting, max_moves=most)
    ended = time.monotonic()
    fresh = max(FRESH_SECONDS, REST * (ended - begun))
    # Why it waits stands beside this anyhow.
    sentence = tell_unblocking(plan).replace(f" {waiting.sentence}", "", 1)
    if advice is not None:
        sentence = f"{sentence} {tell_preemption(advice)}".strip()
    found = Unblocking(sentence, row.pk, fresh_until=ended + fresh)
    with _lock:
        _told[cluster.pk, *likeness(waiting)] = found
        while len(_told) > REMEMBERED:
            _told.popitem(last=False)
    return found
