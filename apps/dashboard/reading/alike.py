"""Pods of one owner that wait for the same thing are one workload to whoever reads the queue.

The planner answers for each of them by itself, since each may be placed by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from apps.pending.unblocking import likeness
from apps.planner.waiting import WaitingWorkload


def gather_alike(waiting: Iterable[WaitingWorkload]) -> list[tuple[WaitingWorkload, ...]]:
    """In the order of the queue, each group where its first stands. A gang is always by itself."""
    groups: dict[tuple[object, ...], list[WaitingWorkload]] = {}
    for one in waiting:
        by_itself = one.key if len(one.pods) > 1 else ""
        groups.setdefault((*likeness(one), one.sentence, by_itself), []).append(one)
    return [tuple(members) for members in groups.values()]


def as_one(members: tuple[WaitingWorkload, ...]) -> WaitingWorkload:
    """The first of them, with the pods of all and the longest wait."""
    told = [one.since for one in members if one.since > 0]
    return replace(
        members[0], pods=tuple(uid for one in members for uid in one.pods), since=min(told, default=0.0)
    )
