"""Steps that wait for a person are looked at again and again, so that what is told of them is never old.

A look changes nothing in the cluster and no state: only a person lets the execution go on.
"""

from __future__ import annotations

from datetime import datetime

from apps.executions import ledger
from apps.executions.context import Context
from apps.executions.decisions import Decision, Verdict
from apps.executions.models import Step
from apps.executions.request_log import attribute_to
from apps.executions.states import StepState
from apps.executions.step_modules import module_of
from apps.executions.stepping import too_late
from apps.executions.undoing import land
from apps.kube.errors import KubeError

LOOK_SECONDS = 15.0


def stand(context: Context) -> bool:
    """A turn of an execution that waits for a person. True if anything changed in the cluster."""
    moved = land(context)
    if not moved:
        look_again(context)
    return moved


def look_again(context: Context) -> None:
    for step in context.steps:
        if step.observed.get("needs_person") and _is_due(step, context.now):
            words, stands = _look(context, step)
            ledger.record_standing(context.lease, step, words, stands=stands)


def _is_due(step: Step, now: datetime) -> bool:
    at = (step.observed.get("stands") or {}).get("at", "")
    return not at or (now - datetime.fromisoformat(at)).total_seconds() >= LOOK_SECONDS


def _look(context: Context, step: Step) -> tuple[str, bool]:
    """What is seen now, and whether it still stands in the way."""
    module = module_of(step)
    is_undone = step.state == StepState.COMPENSATING
    attribute_to(step.position)
    try:
        facts = module.observe(context, step)
        decision: Decision = (
            module.decide_undo(step, facts) if is_undone else module.decide(step, facts, late=False)
        )
    except KubeError as error:
        return f"It cannot be looked at now: {error}", True
    if decision.verdict == Verdict.ACT:
        return f"Nothing stands against the next thing to do: {decision.reason}.", False
    if decision.verdict == Verdict.WAIT and not is_undone:
        return decision.reason, is_still_awaited(step, decision, module.decide(step, facts, late=True))
    return decision.reason, decision.verdict in (Verdict.STOP, Verdict.BLOCKED)


def is_still_awaited(step: Step, decision: Decision, late: Decision) -> bool:
    """A step that waited too long waits for the same thing still: that has not come yet. late: what it would
    decide if its time were over."""
    ended = late if late.verdict == Verdict.STOP else too_late(step, decision)
    return ended.cause == step.observed.get("cause", "")
