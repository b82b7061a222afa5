"""How much a queue could still give out, counting what it may borrow and what its ancestors bound.

Two ways of counting: Kueue's, where a queue lends what it leaves unused to its cohort, and the others', where
every queue on the way to the root has a bound of its own. Source of the first: Kueue's hierarchical quota, as
its documentation tells it. Not in here: whether a workload fits (quota), what to say about it (quota_words).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from apps.planner.queues import Controller, Queue, Share
from apps.planner.snapshot import Snapshot

DEEPEST = 16
"""Parents that are followed; a circle of them ends here."""
Part = tuple[str, str]
"""(flavor, resource)"""
UNBOUNDED = float("inf")
Counted = tuple[dict[tuple[str, Part], float], dict[tuple[str, Part], float]]
"""(beside what the controllers say, with all that is below a queue), by queue and part."""


class QuotaRoom:
    """added: what is counted as used beside what the controllers say, by queue and part; it grows while a
    queue's waiting workloads are admitted in thought."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.added: dict[tuple[str, Part], float] = defaultdict(float)
        self._subtrees: dict[tuple[str, Part], float] = {}
        self._used: dict[tuple[str, Part], float] = {}

    @cached_property
    def _shares(self) -> dict[tuple[str, Part], Share]:
        return {
            (queue.key, (share.flavor, share.resource)): share
            for queue in self.snapshot.queues.values()
            for share in queue.shares
        }

    @cached_property
    def _children(self) -> dict[str, list[Queue]]:
        found: dict[str, list[Queue]] = defaultdict(list)
        for queue in self.snapshot.queues.values():
            found[queue.parent].append(queue)
        return found

    def share(self, queue: Queue, part: Part) -> Share | None:
        return self._shares.get((queue.key, part))

    def used(self, queue: Queue, part: Part) -> float:
        share = self.share(queue, part)
        return (share.used if share else 0.0) + self.added.get((queue.key, part), 0.0)

    def left(self, queue: Queue, part: Part) -> float:
        """What could be given out now."""
        if queue.controller is Controller.KUEUE:
            return self._lendable(queue, part, is_empty=False)
        return min((bound - used for _, bound, used in self._bounds(queue, part)), default=UNBOUNDED)

    def most(self, queue: Queue, part: Part) -> float:
        """What could be given out if nobody used anything: who asks for more waits for good."""
        if queue.controller is Controller.KUEUE:
            return self._lendable(queue, part, is_empty=True)
        return min((bound for _, bound, _ in self._bounds(queue, part)), default=UNBOUNDED)

    def tightest(self, queue: Queue, part: Part) -> Queue:
        """The queue on the way to the root that leaves least: the one to speak of."""
        if queue.controller is Controller.KUEUE:
            return queue
        bounds = list(self._bounds(queue, part))
        return min(bounds, key=lambda one: one[1] - one[2])[0] if bounds else queue

    def line(self, queue: Queue) -> Iterator[Queue]:
        """The queue and its ancestors."""
        for _ in range(DEEPEST):
            yield queue
            parent = self.snapshot.queues.get(queue.parent)
            if parent is None:
                return
            queue = parent

    def take(self, queue: Queue, part: Part, amount: float) -> None:
        """Kueue's cohorts count what their members use; the others' parents count it themselves."""
        self.added[queue.key, part] += amount
        if queue.controller is Controller.KUEUE:
            self._raise_used(queue, part, amount)
            return
        for ancestor in [*self.line(queue)][1:]:
            self.added[ancestor.key, part] += amount

    def mark(self) -> Counted:
        """What is counted as used now, to `restore`."""
        return self.added.copy(), self._used.copy()

    def restore(self, marked: Counted) -> Counted:
        """Count as at that moment; returns what was counted till now."""
        until_now = self.added, self._used
        self.added, self._used = marked
        return until_now

    def _raise_used(self, queue: Queue, part: Part, amount: float) -> None:
        """Only the line itself: a cohort may have thousands of members, and each claim would sum them."""
        line = [*{one.key: one for one in self.line(queue)}.values()]
        for at, one in enumerate(line):
            known = self._used.get((one.key, part))
            if known is None:
                for above in line[at:]:
                    self._used.pop((above.key, part), None)
                return
            self._used[one.key, part] = known + amount
            kept = self._kept(one, part)
            amount = max(0.0, known + amount - kept) - max(0.0, known - kept)

    def _bounds(self, queue: Queue, part: Part) -> Iterator[tuple[Queue, float, float]]:
        for one in self.line(queue):
            share = self.share(one, part)
            if share is not None and share.limit is not None:
                yield one, share.limit, self.used(one, part)

    # --- Kueue ---

    def _lendable(self, queue: Queue, part: Part, *, is_empty: bool, depth: int = 0) -> float:
        subtree = self._subtree(queue, part)
        used = 0.0 if is_empty else self._subtree_used(queue, part)
        parent = self.snapshot.queues.get(queue.parent)
        if parent is None or depth > DEEPEST:
            return subtree - used
        kept = self._kept(queue, part)
        above = self._lendable(parent, part, is_empty=is_empty, depth=depth + 1)
        share = self.share(queue, part)
        if share is not None and share.most_borrowed is not None:
            lent = subtree - kept
            above = min(above, lent - max(0.0, used - kept) + share.most_borrowed)
        return max(0.0, kept - used) + above

    def _subtree(self, queue: Queue, part: Part, depth: int = 0) -> float:
        key = (queue.key, part)
        if key not in self._subtrees:
            self._subtrees[key] = self._sum_subtree(queue, part, depth)
        return self._subtrees[key]

    def _sum_subtree(self, queue: Queue, part: Part, depth: int) -> float:
        share = self.share(queue, part)
        own = share.quota or 0.0 if share else 0.0
        if depth > DEEPEST:
            return own
        children = self._children.get(queue.key, ())
        return own + sum(
            self._subtree(one, part, depth + 1) - self._kept(one, part, depth + 1) for one in children
        )

    def _kept(self, queue: Queue, part: Part, depth: int = 0) -> float:
        """What a queue never lends."""
        share = self.share(queue, part)
        if share is None or share.most_lent is None:
            return 0.0
        return max(0.0, self._subtree(queue, part, depth) - share.most_lent)

    def _subtree_used(self, queue: Queue, part: Part, depth: int = 0) -> float:
        key = (queue.key, part)
        if key not in self._used:
            self._used[key] = self._sum_used(queue, part, depth)
        return self._used[key]

    def _sum_used(self, queue: Queue, part: Part, depth: int) -> float:
        own = self.used(queue, part)
        if depth > DEEPEST:
            return own
        children = self._children.get(queue.key, ())
        return own + sum(
            max(0.0, self._subtree_used(one, part, depth + 1) - self._kept(one, part)) for one in children
        )
