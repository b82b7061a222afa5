"""What becomes of an execution at which our own code fails, or workers die: a fault of ours, not
of its cluster.

For the preflight, the verification and all else that a turn does. A step's own code that fails is
`stepping`'s, and a cluster that does not answer is no fault of ours.
"""

from __future__ import annotations

from itertools import takewhile

import structlog
from django.conf import settings

from apps.executions import ledger
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Execution, StepEvent
from apps.executions.outlook import tell_outlook
from apps.executions.states import ExecutionState

log = structlog.get_logger(__name__)
State = ExecutionState
FAILED_TRY = "failed try"
STANDING = (State.PAUSED, State.NEEDS_HUMAN)
"""A person looks at it already, and nothing is begun."""


def face_own_failure(lease: Lease, execution: Execution, error: Exception) -> None:
    """Tried again by the timer, and after a few times in a row a person is told: whoever waits for it would
    see nothing else for ever."""
    log.error("the console's own code failed", execution=execution.pk, exc_info=error)
    if execution.state in STANDING:
        return
    words = f"An error in the console itself ({type(error).__name__}): see the worker's log."
    _give_up_after(settings.EXECUTION_FAILURES_BEFORE_PAUSE, lease, execution, words, "console-failed")


def face_dead_worker(lease: Lease, execution: Execution) -> bool:
    """The runner before this one never gave its claim back. True if that came so often that a person is told
    instead: a preflight that takes more memory than there is would kill a worker each time, for ever."""
    if not lease.was_left or execution.state in STANDING:
        return False
    words = (
        "The worker that looked at it ended without a word: killed, out of memory, or stopped past its lease."
    )
    return _give_up_after(settings.EXECUTION_CRASHES_BEFORE_STOP, lease, execution, words, "worker-dies")


def _give_up_after(most: int, lease: Lease, execution: Execution, words: str, cause: str) -> bool:
    """Keep this failure. True if it was the last that is borne, and the execution stands still now."""
    if _count(lease, words, most) < most:
        return False
    if execution.state in (State.QUEUED, State.PREFLIGHT):
        outlook = tell_outlook(execution, is_touched=False)
        ledger.move_execution(lease, State.FAILED, f"Nothing was touched. {words} {outlook}", cause=cause)
    else:
        ledger.move_execution(lease, State.NEEDS_HUMAN, words, cause=cause)
    return True


def _count(lease: Lease, words: str, most: int) -> int:
    """Returns how many failures came one after the other, with nothing done in between, `most` at most."""
    with hold_fence(lease) as row:
        StepEvent.objects.create(
            execution=row, at=ledger.database_time(), fence=row.fence, state=FAILED_TRY, message=words
        )
        newest = StepEvent.objects.filter(execution=row).order_by("-pk")
        told = newest.values_list("step", "state")[:most]
        return sum(1 for _ in takewhile(lambda one: one == (None, FAILED_TRY), told))
