"""One look at one step: observe, decide, at most one effect, record.

The only place that calls a step's module. What it raises ends the runner's visit; whatever the cluster
answers is written into the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import structlog
from django.conf import settings

from apps.executions import ledger, permission, safe_mode
from apps.executions.before_effects import only_while_ours
from apps.executions.budget_waits import wait_for_budget
from apps.executions.context import Context, is_late, step_seconds
from apps.executions.decisions import Decision, Verdict, blocked, done, stop
from apps.executions.errors import ExecutionError
from apps.executions.giving_up import give_up
from apps.executions.models import Step
from apps.executions.request_log import attribute_to
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.executions.step_modules import module_of
from apps.executions.stops import list_held
from apps.kube import errors as kube

log = structlog.get_logger(__name__)
PASSING = (
    kube.Unreachable,
    kube.NotSent,
    kube.ServerFailed,
    kube.TooManyRequests,
    kube.Conflict,
    kube.Expired,
    kube.NotFound,
)
"""What the cluster may answer on a bad day: tried again until the step's deadline."""


REFUSALS = (
    kube.NotSent,
    kube.Conflict,
    kube.NotFound,
    kube.Expired,
    kube.TooManyRequests,
    kube.SeveralBudgets,
    kube.Forbidden,
    kube.Unauthorized,
    kube.Invalid,
)
"""What says for certain that the request had no effect."""


OLD_DATABASE = "database-old"
"""Whatever else this database says of the cluster cannot be believed either."""


class NeedsPerson(Exception):
    """The step has been written as blocked; the execution has to wait for a person. cause: of `causes`."""

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(reason)
        self.cause = cause


class Unreliable(Exception):
    """The same step failed several times in a row; the execution is to be paused."""


def advance_each(context: Context, steps: Iterable[Step], *, during: Collection[str]) -> bool:
    """One look at each of these that is due. Later ones see what was written for earlier ones: what the
    ledger writes, it writes into the steps of the context as well. What people write meanwhile is met by the
    row's lock and state before anything is sent, and seen in the next turn."""
    moved = False
    for step in steps:
        if step.observed.get("needs_person") or (step.retry_at is not None and step.retry_at > context.now):
            continue
        if advance_step(context, step, during=during):
            moved = True
            context = replace(context, now=ledger.database_time())
    return moved


def advance_step(context: Context, step: Step, *, during: Collection[str]) -> bool:
    """One look forward. True if something changed."""
    module = module_of(step)
    late = is_late(step, context.now)
    decision = _look(context, step, lambda facts: module.decide(step, facts, late=late))
    if decision is None:
        return False
    if decision.verdict in (Verdict.WAIT, Verdict.BLOCKED) and late and not decision.is_patient:
        decision = too_late(step, decision)
    if decision.verdict == Verdict.ACT:
        return _act(context, step, decision, during)
    return _record(context, step, decision)


def settle_eviction(context: Context, step: Step, *, drop: bool) -> bool:
    """Look whether an eviction that may have gone out did, and send nothing. True if that was settled.

    drop: give the eviction up if it did not go out.
    """
    if step.retry_at is not None and step.retry_at > context.now:
        return False
    module = module_of(step)
    decision = _look(context, step, lambda facts: module.decide(step, facts, late=False))
    if decision is None:
        return False
    if decision.verdict in (Verdict.DONE, Verdict.MOOT):
        return _record(context, step, decision)
    if not drop:
        return False
    if decision.seen.get("evicted"):
        ledger.record_end(context.lease, step, StepState.VERIFIED, decision.reason, decision.seen)
        return True
    ledger.record_end(context.lease, step, StepState.SUPERSEDED, "stopped before the pod was evicted", {})
    return True


def undo_step(context: Context, step: Step, *, during: Collection[str]) -> bool:
    """One look backward, at a step that is COMPENSATING."""
    module = module_of(step)
    decision = _look(context, step, lambda facts: module.decide_undo(step, facts))
    if decision is None:
        return False
    if decision.verdict == Verdict.ACT:
        return _act(context, step, decision, during)
    is_held_up = decision.verdict in (Verdict.WAIT, Verdict.BLOCKED)
    if is_held_up and decision.cause and is_late(step, context.now):
        decision = stop(decision.reason, decision.runbook, cause=decision.cause)
    if is_held_up or decision.verdict == Verdict.STOP:
        return _record(context, step, decision)
    ledger.record_end(context.lease, step, StepState.COMPENSATED, decision.reason, decision.seen)
    return True


def _look(context: Context, step: Step, decide: Callable[[Any], Decision]) -> Decision | None:
    """Observe and decide; None if that failed, which is then in the ledger."""
    attribute_to(step.position)
    try:
        return decide(module_of(step).observe(context, step))
    except ExecutionError:
        raise
    except Exception as error:
        _fail(context, step, error)
        return None


def _act(context: Context, step: Step, decision: Decision, during: Collection[str]) -> bool:
    if step.observed.get("crashes", 0) >= settings.EXECUTION_CRASHES_BEFORE_STOP:
        reason = f"{decision.effect} was begun {step.observed['crashes']} times and never answered."
        _record(
            context,
            step,
            stop(
                reason, "See the worker's log for why it dies; then resume or cancel.", cause="never-answered"
            ),
        )
        return True
    waits = wait_for_budget(context, step) if decision.effect == "evict" else None
    if waits is not None:
        return _stay_blocked(context, step, waits)
    seconds = step_seconds(step.kind)
    instead = permission.record_intent(context, step, decision, during=during, seconds=seconds)
    if instead is not None:
        is_told = instead.verdict == Verdict.BLOCKED and step.state == StepState.BLOCKED
        return False if is_told and step.reason == instead.reason else _record(context, step, instead)
    try:
        with only_while_ours(context, during):
            module_of(step).apply(context, step, decision)
    except ExecutionError:
        raise
    except Exception as error:
        return _meet(context, step, error)
    ledger.record_issued(context.lease, step)
    return True


def _meet(context: Context, step: Step, error: Exception) -> bool:
    """An effect that was not answered with success."""
    if isinstance(error, kube.BudgetExhausted):
        _wait_for_budget(context, step, error)
        return True
    if isinstance(error, kube.MovedByItsOwner) and step.kind == StepKind.EVICT_POD:
        # It took effect: a second request would begin nothing, and the replacement is on its way.
        ledger.record_issued(context.lease, step)
        return _record(context, step, done(f"its owner moves the pod by itself: {error}", evicted=True))
    if isinstance(error, kube.SeveralBudgets):
        advice = "Leave one PodDisruptionBudget over that pod, then resume; or cancel."
        return _record(context, step, stop(str(error), advice, cause="several-budgets"), was_refused=True)
    is_sure = isinstance(error, REFUSALS) and not isinstance(error, kube.MovedByItsOwner)
    _fail(context, step, error, was_refused=is_sure)
    return True


def _record(context: Context, step: Step, decision: Decision, *, was_refused: bool = False) -> bool:
    lease, seconds = context.lease, step_seconds(step.kind)
    if decision.verdict == Verdict.DONE:
        ledger.record_end(lease, step, StepState.VERIFIED, decision.reason, decision.seen)
        return True
    if decision.verdict == Verdict.MOOT:
        ledger.record_end(lease, step, StepState.SUPERSEDED, decision.reason, decision.seen)
        return True
    if decision.verdict == Verdict.WAIT:
        return ledger.record_wait(lease, step, decision, seconds=seconds)
    needs_person = decision.verdict == Verdict.STOP
    ledger.record_blocked(
        lease, step, decision, seconds=seconds, retries=not needs_person, was_refused=was_refused
    )
    if decision.cause == OLD_DATABASE:
        safe_mode.enter(context.execution.plan.cluster, decision.reason)
    if needs_person:
        raise NeedsPerson(decision.reason, decision.cause)
    return False


def _wait_for_budget(context: Context, step: Step, error: kube.BudgetExhausted) -> None:
    decision = blocked(
        str(error),
        "The workload has no pod to spare now; it is asked again by itself.",
        cause="budget-used-up",
        retry_seconds=error.retry_after or 3.0,
    )
    if is_late(step, context.now):
        decision = too_late(step, decision)
    _record(context, step, decision, was_refused=True)


def _stay_blocked(context: Context, step: Step, decision: Decision) -> bool:
    """Nothing was sent. Written once, not at every look."""
    late = is_late(step, context.now)
    if step.state == StepState.BLOCKED and step.reason == decision.reason and not late:
        return False
    return _record(context, step, too_late(step, decision) if late else decision)


def too_late(step: Step, decision: Decision) -> Decision:
    """What waited past the step's deadline, as a stop that a person decides."""
    advice = decision.runbook or f"See {step.target}."
    return stop(
        f"The deadline of this step has passed. {decision.reason}",
        f"{advice} Resume or cancel.",
        cause=decision.cause or "step-deadline",
    )


def _fail(context: Context, step: Step, error: Exception, *, was_refused: bool = False) -> None:
    passing = isinstance(error, PASSING)
    known = isinstance(error, kube.KubeError)
    if not known:
        log.exception("a step's code failed", execution=context.execution.pk, step=step.pk, kind=step.kind)
    message = str(error) if known else f"an error in the console itself ({type(error).__name__}): see its log"
    failures = ledger.record_failure(
        context.lease,
        step,
        message,
        counts=not passing,
        retry_after=error.retry_after if isinstance(error, kube.KubeError) else None,
        seconds=step_seconds(step.kind),
        was_refused=was_refused,
    )
    is_refused = failures >= settings.EXECUTION_FAILURES_BEFORE_PAUSE
    is_silent = passing and is_late(step, context.now)
    if not is_refused and not is_silent:
        return
    if context.execution.state in (ExecutionState.CANCELLING, ExecutionState.ROLLING_BACK):
        held = list_held(context.execution, context.steps)
        _record(context, step, give_up(step, message, held, is_refused=is_refused))
    if is_refused:
        whose = f"Move {step.move}, " if step.move else ""
        raise Unreliable(f"{whose}{step.get_kind_display().lower()} ({step.target}): {message}")
    words = f"The deadline of this step has passed. {message}"
    _record(context, step, stop(words, "See the cluster.", cause="step-deadline"))
