"""Pods that are taken to be on a node before the watch says so. Pure: the caller knows the time.

Four causes: we bound it; a scheduler was just told that this node is its best; its gang was let through and
this room is kept for it; an execution keeps room for a pod that is still to be made. Each ends when the watch
tells where the pod is or that it is gone, when the pod is asked about again, or at its deadline.
Not in here: what they take of a node (picture).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from apps.planner.inventory import Pod


class Cause(StrEnum):
    BOUND = "bound"
    TOLD = "told"
    GANG = "gang"
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class Assumed:
    """until: a moment of the caller's clock."""

    pod: Pod
    node: str
    cause: Cause
    until: float


class AssumedPods:
    """By uid."""

    def __init__(self) -> None:
        self._known: dict[str, Assumed] = {}
        self._next_end = float("inf")

    def __len__(self) -> int:
        return len(self._known)

    def get(self, uid: str) -> Assumed | None:
        return self._known.get(uid)

    def add(self, one: Assumed) -> None:
        self._known[one.pod.uid] = one
        self._next_end = min(self._next_end, one.until)

    def drop(self, uid: str) -> Assumed | None:
        return self._known.pop(uid, None)

    def all(self) -> tuple[Assumed, ...]:
        return tuple(self._known.values())

    def take_expired(self, now: float) -> list[Assumed]:
        """Those whose time is over; they are dropped."""
        if now < self._next_end:
            return []
        over = [one for one in self._known.values() if one.until <= now]
        for one in over:
            del self._known[one.pod.uid]
        self._next_end = min((one.until for one in self._known.values()), default=float("inf"))
        return over


def is_contradicted(one: Assumed, seen: Pod) -> bool:
    """Whether the watch's newer word on the pod ends the assumption: it is somewhere, or on its way out, or
    the scheduler says that it found no node."""
    if seen.node_name or seen.terminating or seen.phase in ("Succeeded", "Failed"):
        return True
    return (
        one.cause is Cause.TOLD
        and bool(seen.unschedulable_message)
        and (seen.unschedulable_message != one.pod.unschedulable_message)
    )
