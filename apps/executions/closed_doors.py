"""What becomes of an execution whose cluster cannot be opened at all: no credential, or an unreadable one.

One that the cluster does not answer is `stepping`'s: there each step has its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings

from apps.executions import ledger
from apps.executions.flow import Ledger, is_unsettled, steps_to_drop, steps_to_undo
from apps.executions.giving_up import give_up
from apps.executions.locks import Lease
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.outlook import as_sentence
from apps.executions.states import ExecutionState, StepState
from apps.executions.stops import list_held
from apps.executions.undoing import end_stopped

State = ExecutionState
UNTOUCHED = {
    State.QUEUED: State.FAILED,
    State.PREFLIGHT: State.FAILED,
    State.CANCELLING: State.CANCELLED,
    State.ROLLING_BACK: State.ROLLED_BACK,
}
STOPPING = (State.CANCELLING, State.ROLLING_BACK)


def face_closed_door(lease: Lease, execution: Execution, reason: str) -> None:
    """Without steps it can still end: nothing was touched. It also ends once a person has dealt with all that
    was to be given back. Else a person is told, when nothing has happened for as long as a step may take: a
    credential that is being changed comes back sooner."""
    state, steps = State(execution.state), list(execution.steps.all())
    if not steps:
        if state in UNTOUCHED:
            words = f"{as_sentence(execution.state_reason)} Nothing was touched. {reason}"
            ledger.move_execution(lease, UNTOUCHED[state], words.strip(), cause="cluster-unreadable")
        return
    if state in STOPPING and not _left(steps):
        _end(lease, execution, steps)
        return
    if state not in (State.RUNNING, State.VERIFYING, *STOPPING) or not _has_lasted(execution):
        return
    cause = "cluster-closed"
    if state in STOPPING:
        _give_up_all(lease, execution, steps, reason)
        cause = "undo-unreachable"
    ledger.move_execution(lease, State.NEEDS_HUMAN, reason, cause=cause)


def _has_lasted(execution: Execution) -> bool:
    last = StepEvent.objects.filter(execution=execution).last()
    patience = timedelta(seconds=settings.EXECUTION_STEP_SECONDS)
    return last is None or ledger.database_time() >= last.at + patience


def _end(lease: Lease, execution: Execution, steps: Sequence[Step]) -> None:
    for step in steps_to_drop(Ledger(steps), keep_landing=False):
        ledger.record_end(lease, step, StepState.SUPERSEDED, "the execution was stopped", {})
    end_stopped(lease, execution, steps)


def _give_up_all(lease: Lease, execution: Execution, steps: Sequence[Step], reason: str) -> None:
    """Everything whose traces may still be there waits for a person, so that one word can end it all."""
    held = list_held(execution, steps)
    for step in _left(steps):
        if not is_unsettled(step) and step.state != StepState.COMPENSATING:
            ledger.record_undo(lease, step)
            step.refresh_from_db()
        decision = give_up(step, reason, held, is_refused=False)
        seconds = float(settings.EXECUTION_STEP_SECONDS)
        ledger.record_blocked(lease, step, decision, seconds=seconds, retries=False)


def _left(steps: Sequence[Step]) -> list[Step]:
    """Evictions of which nobody knows, and steps whose traces may still be in the cluster."""
    found = [step for step in steps if is_unsettled(step)]
    left = list(steps)
    while last := steps_to_undo(Ledger(left)):
        found += last
        left = [step for step in left if step not in last]
    return found
