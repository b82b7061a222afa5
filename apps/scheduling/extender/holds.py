"""Nodes that are kept: whose pods may come there, and until when.

The book is asked at each filter call, so whoever fills it answers from memory. Not in here: which executions
hold what (whoever fills the book).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apps.planner.inventory import Pod


@dataclass(frozen=True, slots=True)
class Hold:
    """One node, kept for some pods. gangs: keys "namespace/name", of gangs or of single pods; owners: uids of
    controllers; pods: uids; any of them lets a pod in. until: epoch seconds, None without a deadline. reason:
    said to whom it refuses, such as "kept for the gang ml/train by execution 12"."""

    node: str
    reason: str
    execution: str = ""
    gangs: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    until: float | None = None

    def lets_in(self, pod: Pod) -> bool:
        if pod.owner_kind in ("DaemonSet", "Node"):
            return True
        is_named = pod.gang in self.gangs or pod.key in self.gangs
        return is_named or pod.uid in self.pods or pod.workload in self.owners

    def is_over(self, now: float) -> bool:
        return self.until is not None and now >= self.until


class HoldBook(Protocol):
    def holds(self) -> Mapping[str, Sequence[Hold]]:
        """By node, from memory. Those that are over may still be among them."""


class KeptHolds:
    """A book in memory, replaced as a whole by whoever knows the holds."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self._by_node: dict[str, list[Hold]] = {}
        self.replace(holds)

    def replace(self, holds: Iterable[Hold]) -> None:
        found: dict[str, list[Hold]] = {}
        for hold in holds:
            found.setdefault(hold.node, []).append(hold)
        self._by_node = found

    def holds(self) -> Mapping[str, Sequence[Hold]]:
        return self._by_node


def who_keeps(book: HoldBook, pod: Pod, now: float) -> dict[str, str]:
    """Of each node that is kept for others: why. A node with several holds is open to the pods of each."""
    kept: dict[str, str] = {}
    for name, holds in book.holds().items():
        active = [hold for hold in holds if not hold.is_over(now)]
        if active and not any(hold.lets_in(pod) for hold in active):
            kept[name] = f"the node is {active[0].reason}"
    return kept
