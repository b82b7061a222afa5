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
UPDATE executions_execution
SET fence = fence + 1, lease_owner = %(owner)s, visited_at = clock_timestamp(),
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE id IN (
    SELECT id FROM executions_execution
    WHERE id = %(id)s AND state <> ALL(%(terminal)s)
      AND (lease_until IS NULL OR lease_until < clock_timestamp()
           OR lease_until > clock_timestamp() + make_interval(secs => 3 * %(seconds)s))
    FOR UPDATE SKIP LOCKED
)
RETURNING fence
"""
"""A lease that ends later than any could was written before the database's clock jumped back: nobody waits an
hour for that. Whoever still holds it writes nothing more, by its fence."""
_RENEW = """
UPDATE executions_execution
SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s), visited_at = clock_timestamp()
WHERE id = %(id)s AND fence = %(fence)s AND lease_until >= clock_timestamp()
RETURNING fence
"""
_RELEASE = "UPDATE executions_execution SET lease_until = NULL WHERE id = %(id)s AND fence = %(fence)s"


@dataclass
class Lease:
    """A claim that this runner holds. `_until` counts on the monotonic clock from before the UPDATE
    left, so it never says more than the database would."""

    execution_id: int
    fence: int
    seconds: float
    _until: float = field(default=0.0)

    def left(self) -> float:
        """Seconds for which nobody else can take it."""
        return self._until - time.monotonic()

    def renew(self) -> None:
        """Raises LostLease if it is over or somebody else has it."""
        asked_at = time.monotonic()
        if _fetch_fence(_RENEW, id=self.execution_id, fence=self.fence, seconds=self.seconds) is None:
            raise LostLease(f"execution {self.execution_id} was taken over by another runner")
        self._until = asked_at + self.seconds

    def ensure(self, seconds: float) -> None:
        """Make sure that at least `seconds` are left, renewing once if needed."""
        if self.left() < seconds:
            self.renew()


def claim(execution_id: int, *, owner: str, seconds: float) -> Lease | None:
    """Take an open execution that nobody holds. Never waits; None if it is not to be had."""
    asked_at = time.monotonic()
    terminal = [str(state) for state in TERMINAL]
    fence = _fetch_fence(_CLAIM, id=execution_id, owner=owner[:120], seconds=seconds, terminal=terminal)
    if fence is None:
        return None
    return Lease(execution_id, fence, seconds, asked_at + seconds)


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


def _fetch_fence(statement: str, **values: Any) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone()
    return row[0] if row else None
