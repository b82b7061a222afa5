"""What becomes of an execution at which the console's own code fails: a fault of ours, not of its cluster.

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
    if _count(lease, words) < settings.EXECUTION_FAILURES_BEFORE_PAUSE:
        return
    cause = "console-failed"
    if execution.state in (State.QUEUED, State.PREFLIGHT):
        outlook = tell_outlook(execution, is_touched=False)
        ledger.move_execution(lease, State.FAILED, f"Nothing was touched. {words} {outlook}", cause=cause)
    else:
        ledger.move_execution(lease, State.NEEDS_HUMAN, words, cause=cause)


def _count(lease: Lease, words: str) -> int:
    """Keep this failure. Returns how many came one after the other, with nothing done in between."""
    with hold_fence(lease) as row:
        StepEvent.objects.create(
            execution=row, at=ledger.database_time(), fence=row.fence, state=FAILED_TRY, message=words
        )
        newest = StepEvent.objects.filter(execution=row).order_by("-pk")
        told = newest.values_list("step", "state")[: settings.EXECUTION_FAILURES_BEFORE_PAUSE]
        return sum(1 for _ in takewhile(lambda one: one == (None, FAILED_TRY), told))
