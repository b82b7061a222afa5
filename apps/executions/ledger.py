"""What a runner writes about an execution and its steps. Every function is one durable transaction
that proves the fence first and changes a state only by compare-and-set.

People's decisions are in `services`; nothing here talks to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction

from apps.audit import services as audit
from apps.clusters import notices
from apps.executions.decisions import Decision
from apps.executions.errors import HeldByPolicy, LostLease, WrongState
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Execution, Steering, Step, StepEvent
from apps.executions.queries import in_safe_mode
from apps.executions.states import (
    ALLOWED,
    STEP_ALLOWED,
    SUCCESSES,
    TERMINAL,
    ExecutionState,
    StepState,
)
from apps.executions.stop_loss import count_failure, count_success

FAILURES_IN_ROW = "failures-in-row"
BACKOFF_SECONDS = (0.5, 1, 2, 5, 10, 20, 30)


def database_time() -> datetime:
    """The only clock that leases, deadlines and retries go by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def record_intent(
    lease: Lease,
    step: Step,
    decision: Decision,
    *,
    during: Iterable[str],
    seconds: float,
    admit: Callable[[], None] = lambda: None,
) -> None:
    """Say what is about to be sent, before it is sent. `during`: execution states that allow it.

    Raises WrongState if a person changed the execution's state since it was read, HeldByPolicy while the
    cluster is in safe mode: then nothing at all is sent, not even what lands or undoes. seconds: how long the
    step may take from its first effect on. admit: asked inside the transaction; what it raises undoes it.
    """
    with _locked(lease, step) as (execution, row, now):
        _require_may_send(execution, during)
        admit()
        if row.state != StepState.COMPENSATING:
            _set_state(row, StepState.INTENT)
        row.attempts += 1
        row.intent_at = now
        if row.deadline_at is None or decision.is_beginning:
            row.deadline_at = now + timedelta(seconds=seconds)
        row.retry_at = None
        row.reason = decision.reason
        _keep(row, decision.seen)
        row.observed["sent"] = [*row.observed.get("sent", []), decision.effect]
        row.observed["crashes"] = row.observed.get("crashes", 0) + 1
        row.save()
        _tell(execution, row, now, "intent", f"{decision.effect}: {decision.reason}")
        audit.record(
            actor=execution.started_by,
            action=f"step.{row.kind}.{decision.effect}",
            subject=row,
            cluster=execution.plan.cluster.name,
            detail={"execution": execution.pk, "target": row.target, "move": row.move, "fence": lease.fence},
        )


def _require_may_send(execution: Execution, during: Iterable[str]) -> None:
    if execution.state not in set(during):
        raise WrongState(f"execution {execution.pk} is {execution.state}: nothing more is sent")
    if in_safe_mode(execution.plan.cluster_id):
        raise HeldByPolicy(f"{execution.plan.cluster.name} is in safe mode: nothing is sent")


def record_issued(lease: Lease, step: Step) -> None:
    """The request was answered with success."""
    with _locked(lease, step) as (execution, row, now):
        if row.state != StepState.COMPENSATING:
            _set_state(row, StepState.ISSUED)
        row.issued_at = now
        row.observed |= {"crashes": 0, "failures": 0}
        row.save()
        _tell(execution, row, now, "issued", f"{row.observed['sent'][-1]}: accepted by the cluster")


def record_wait(lease: Lease, step: Step, decision: Decision, *, seconds: float) -> bool:
    """Nothing to send now. Writes only what changed; True if something did."""
    seen = step.observed.get("seen", {})
    is_new = {**seen, **decision.seen} != seen or step.reason != decision.reason
    if not is_new and step.state != StepState.BLOCKED and step.deadline_at is not None:
        return False
    with _locked(lease, step) as (execution, row, now):
        if row.state == StepState.BLOCKED and row.attempts:
            _set_state(row, StepState.ISSUED)
        row.deadline_at = row.deadline_at or now + timedelta(seconds=seconds)
        row.retry_at = None
        _keep(row, decision.seen)
        if row.reason != decision.reason:
            row.reason = decision.reason
            _tell(execution, row, now, "waiting", decision.reason)
        row.save()
    return is_new


def record_blocked(
    lease: Lease,
    step: Step,
    decision: Decision,
    *,
    seconds: float,
    retries: bool = True,
    was_refused: bool = False,
) -> None:
    """It cannot be done now. Without `retries` it waits for a person. was_refused: see `record_failure`."""
    with _locked(lease, step) as (execution, row, now):
        if row.state != StepState.COMPENSATING:
            _set_state(row, StepState.BLOCKED)
        row.deadline_at = row.deadline_at or now + timedelta(seconds=seconds)
        row.retry_at = now + timedelta(seconds=decision.retry_seconds) if retries else None
        _keep(row, decision.seen)
        _take_back(row, was_refused)
        row.observed |= {"runbook": decision.runbook, "needs_person": not retries, "crashes": 0}
        row.observed["cause"] = decision.cause
        if row.reason != decision.reason:
            row.reason = decision.reason
            _tell(execution, row, now, "blocked", decision.reason)
        row.save()


def record_end(lease: Lease, step: Step, state: StepState, reason: str, seen: dict[str, Any]) -> None:
    """VERIFIED, SUPERSEDED, FAILED or COMPENSATED."""
    with _locked(lease, step) as (execution, row, now):
        _set_state(row, state)
        row.finished_at = now
        row.retry_at = None
        row.reason = reason
        _keep(row, seen)
        row.observed |= {"crashes": 0, "failures": 0, "needs_person": False, "cause": ""}
        row.save()
        _tell(execution, row, now, state, reason)
        if state == StepState.VERIFIED and row.kind in SUCCESSES:
            count_success(execution.plan.cluster)


def record_standing(lease: Lease, step: Step, words: str, *, stands: bool) -> None:
    """What is seen now of a step that waits for a person. stands: it is still in the way."""
    with hold_fence(lease) as execution:
        row = Step.objects.select_for_update(no_key=True).get(pk=step.pk, execution_id=execution.pk)
        if not row.observed.get("needs_person"):
            return  # a person decided meanwhile
        now = database_time()
        before = row.observed.get("stands") or {}
        row.observed["stands"] = {"at": now.isoformat(), "words": words, "stands": stands}
        row.save(update_fields=["observed"])
        if (before.get("words"), before.get("stands")) != (words, stands) and words != row.reason:
            _tell(execution, row, now, "seen", words)


def settle_step(execution: Execution, row: Step, reason: str, now: datetime) -> None:
    """Inside a transaction that has locked both: what could not be undone is left as a person made it."""
    _set_state(row, StepState.SUPERSEDED)
    row.finished_at, row.retry_at, row.reason = now, None, reason
    row.observed |= {"needs_person": False, "cause": "", "settled": True}
    row.save()
    _tell(execution, row, now, StepState.SUPERSEDED, reason)


def record_undo(lease: Lease, step: Step) -> None:
    """From here on the step's traces are being taken away."""
    with _locked(lease, step) as (execution, row, now):
        _set_state(row, StepState.COMPENSATING)
        row.retry_at = None
        row.deadline_at = None
        row.observed |= {"needs_person": False, "runbook": "", "cause": ""}
        row.save()
        _tell(execution, row, now, StepState.COMPENSATING, "its traces are being released")


def record_failure(
    lease: Lease,
    step: Step,
    message: str,
    *,
    counts: bool,
    retry_after: float | None,
    seconds: float,
    was_refused: bool = False,
) -> int:
    """A look or a request failed. Returns how often in a row it did (only what `counts`).

    seconds: how long giving back may go on failing before a person is told; a step that goes forward
    has its deadline from its first effect or wait. was_refused: the cluster answered that what was sent last
    did not happen, so it no longer counts as sent.
    """
    with _locked(lease, step) as (execution, row, now):
        tries = row.observed.get("tries", 0) + 1 if row.reason == message else 1
        pause = retry_after or BACKOFF_SECONDS[min(tries, len(BACKOFF_SECONDS)) - 1]
        row.retry_at = now + timedelta(seconds=pause)
        _take_back(row, was_refused)
        if row.state == StepState.COMPENSATING:
            row.deadline_at = row.deadline_at or now + timedelta(seconds=seconds)
        failures = row.observed.get("failures", 0) + (1 if counts else 0)
        row.observed |= {"tries": tries, "failures": failures, "crashes": 0}
        if row.reason != message:
            row.reason = message
            _tell(execution, row, now, "failed try", message)
        row.save()
    return int(failures)


def move_execution(lease: Lease, target: ExecutionState, reason: str, **fields: Any) -> None:
    """Change the execution's state; on a terminal one its claims end."""
    with hold_fence(lease) as execution:
        change_state(execution, target, reason, actor=None, now=database_time(), **fields)


def change_state(
    execution: Execution, target: ExecutionState, reason: str, *, actor: Any, now: datetime, **fields: Any
) -> None:
    """Inside a transaction that has locked the row. Raises WrongState if the change is not allowed.

    fields: more of the row to set; `cause`, a code of `causes`, is empty unless it is among them.
    """
    if target not in ALLOWED[ExecutionState(execution.state)]:
        raise WrongState(f"execution {execution.pk} is {execution.state}, so it cannot become {target}")
    execution.state = target
    execution.state_reason = reason
    execution.cause = ""
    for name, value in fields.items():
        setattr(execution, name, value)
    if target in TERMINAL:
        execution.finished_at = now
        execution.claims.all().delete()
        Steering.objects.filter(step__execution=execution, closed_at=None).update(closed_at=now)
    execution.save()
    _tell(execution, None, now, target, reason)
    if target == ExecutionState.NEEDS_HUMAN or execution.cause == FAILURES_IN_ROW:
        count_failure(execution.plan.cluster, execution.pk, reason)
    elif target == ExecutionState.SUCCEEDED:
        count_success(execution.plan.cluster)
    audit.record(
        actor=actor,
        action=f"execution.{target}",
        subject=execution,
        cluster=execution.plan.cluster.name,
        detail={"reason": reason, "plan": execution.plan_id, "fence": execution.fence},
    )


@contextmanager
def _locked(lease: Lease, step: Step) -> Iterator[tuple[Execution, Step, datetime]]:
    """Once it is committed, the caller's step is as the row, so nobody has to read all steps again."""
    with hold_fence(lease) as execution:
        row = Step.objects.select_for_update(no_key=True).get(pk=step.pk, execution_id=execution.pk)
        if row.state != step.state:
            raise LostLease(f"step {step.pk} is {row.state}, not {step.state} as it was read")
        yield execution, row, database_time()
    for field in Step._meta.concrete_fields:
        setattr(step, field.attname, getattr(row, field.attname))


def _set_state(row: Step, target: StepState) -> None:
    if row.state != target and target not in STEP_ALLOWED[StepState(row.state)]:
        raise WrongState(f"step {row.pk} ({row.kind}) is {row.state}, so it cannot become {target}")
    row.state = target


def _keep(row: Step, seen: dict[str, Any]) -> None:
    row.observed["seen"] = {**row.observed.get("seen", {}), **seen}


def _take_back(row: Step, was_refused: bool) -> None:
    if was_refused:
        row.observed["sent"] = row.observed.get("sent", [])[:-1]


def _tell(execution: Execution, step: Step | None, now: datetime, state: str, message: str) -> None:
    StepEvent.objects.create(
        execution=execution, step=step, at=now, fence=execution.fence, state=state, message=message
    )
    cluster, data = execution.plan.cluster.name, {"id": execution.pk}
    transaction.on_commit(lambda: notices.publish(cluster, "execution", data), robust=True)
