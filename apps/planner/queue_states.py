"""How each queue stands: quota, used, borrowed, and what it could still give out now.

Not in here: who waits in it, and whether he would be admitted (quota).
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.planner.queues import Queue, Share
from apps.planner.quota_room import UNBOUNDED, QuotaRoom
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PartState:
    """One resource of one flavor. left: what could be given out now, what may be borrowed counted, never
    below zero; most: if nobody used anything. None where nothing bounds them."""

    share: Share
    left: float | None
    most: float | None

    @property
    def own_used(self) -> float:
        """Without what is borrowed."""
        return self.share.used - self.share.borrowed

    @property
    def is_of_devices(self) -> bool:
        return is_device_resource(self.share.resource)


@dataclass(frozen=True, slots=True)
class QueueState:
    queue: Queue
    parts: tuple[PartState, ...]


def list_queue_states(snapshot: Snapshot) -> tuple[QueueState, ...]:
    """By controller and name; a cohort comes after the queues of its controller."""
    room = QuotaRoom(snapshot)
    queues = sorted(snapshot.queues.values(), key=_rank)
    return tuple(
        QueueState(queue, tuple(_state_of(room, queue, share) for share in queue.shares)) for queue in queues
    )


def _rank(queue: Queue) -> tuple[str, bool, str, str]:
    return str(queue.controller), queue.kind == "Cohort", queue.namespace, queue.name


def _state_of(room: QuotaRoom, queue: Queue, share: Share) -> PartState:
    part = (share.flavor, share.resource)
    left, most = room.left(queue, part), room.most(queue, part)
    return PartState(
        share,
        left=None if left == UNBOUNDED else max(0.0, left),
        most=None if most == UNBOUNDED else most,
    )
