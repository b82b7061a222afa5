"""Who may carry an execution forward, and until when.

A claim is a lease with a fence: one UPDATE takes it, by the database's clock alone, and every claim
raises the fence. A runner whose fence is older than the row's writes nothing (`hold_fence`), and no
request to a cluster starts with less lease left than the request may take (`Lease.ensure`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from apps.executions.errors import LostLease
from apps.executions.models import Execution
from apps.executions.states import TERMINAL

_CLAIM = """
WITH found AS (
    SELECT id, lease_until IS NOT NULL AS was_left FROM executions_execution
    WHERE id = %(id)s AND state <> ALL(%(terminal)s)
      AND (lease_until IS NULL OR lease_until < clock_timestamp()
           OR lease_until > clock_timestamp() + make_interval(secs => 3 * %(seconds)s))
    FOR UPDATE SKIP LOCKED
)
UPDATE executions_execution
SET fence = fence + 1, lease_owner = %(owner)s, visited_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM found WHERE executions_execution.id = found.id
RETURNING fence, was_left
"""
"""A lease that ends later than any could was written before the database's clock jumped back: nobody waits an
hour for that. Whoever still holds it writes nothing more, by its fence."""
_RENEW = """
UPDATE executions_execution
SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s), visited_at = clock_timestamp()
WHERE id = %(id)s AND fence = %(fence)s AND lease_until >= clock_timestamp()
RETURNING fence
"""
ASKS = 3
_RELEASE = "UPDATE executions_execution SET lease_until = NULL WHERE id = %(id)s AND fence = %(fence)s"


@dataclass
class Lease:
    """A claim that this runner holds. `_until` counts on a clock that goes on while the machine is suspended,
    from before the UPDATE left, so it never says more than the database would. was_left: the runner before
    never gave its own back, so it died or was stopped past its end."""

    execution_id: int
    fence: int
    seconds: float
    _until: float = field(default=0.0)
    was_left: bool = False

    def left(self) -> float:
        """Seconds for which nobody else can take it."""
        return self._until - steady_now()

    def renew(self, seconds: float = 0.0) -> None:
        """Ask the database, and have at least `seconds` left when its answer is read.

        A runner that was stopped while it waited reads an answer of long ago, so that one is asked for again.
        Raises LostLease if it is over, if somebody else has it, or if no answer comes soon enough."""
        for _ in range(ASKS):
            asked_at = steady_now()
            if _fetch(_RENEW, id=self.execution_id, fence=self.fence, seconds=self.seconds) is None:
                raise LostLease(f"execution {self.execution_id} was taken over by another runner")
            self._until = asked_at + self.seconds
            if self.left() > seconds:
                return
        raise LostLease(
            f"execution {self.execution_id}: no lease of {self.seconds:g} s leaves {seconds:g} s for a "
            "request: the database answers too late, or EXECUTION_LEASE_SECONDS is too short"
        )

    def ensure(self, seconds: float) -> None:
        """Make sure that at least `seconds` are left, renewing if needed."""
        if self.left() < seconds:
            self.renew(seconds)


def claim(execution_id: int, *, owner: str, seconds: float) -> Lease | None:
    """Take an open execution that nobody holds. Never waits; None if it is not to be had."""
    asked_at = steady_now()
    terminal = [str(state) for state in TERMINAL]
    row = _fetch(_CLAIM, id=execution_id, owner=owner[:120], seconds=seconds, terminal=terminal)
    if row is None:
        return None
    fence, was_left = row
    return Lease(execution_id, fence, seconds, asked_at + seconds, was_left)


def release(lease: Lease) -> None:
    """Give it back at once instead of letting it run out."""
    with connection.cursor() as cursor:
        cursor.execute(_RELEASE, {"id": lease.execution_id, "fence": lease.fence})


@contextmanager
def hold_fence(lease: Lease) -> Iterator[Execution]:
    """A durable transaction with the execution's row locked and the fence proved to be ours."""
    with transaction.atomic(durable=True):
        row = Execution.objects.select_for_update(no_key=True).filter(pk=lease.execution_id).first()
        if row is None or row.fence != lease.fence:
            raise LostLease(f"execution {lease.execution_id} was taken over by another runner")
        yield row


def steady_now() -> float:
    """Seconds of no known beginning; CLOCK_MONOTONIC stands still while a machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _fetch(statement: str, **values: Any) -> tuple[Any, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: tuple[Any, ...] | None = cursor.fetchone()
    return row
