"""The ways on that the engine allows in the state that an execution is in. What helps with one cause stands
in `causes`; whether the policy holds a resume now is asked by the services."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from django.utils import timezone

from apps.executions.cause import Way
from apps.executions.errors import WrongState
from apps.executions.flow import is_unsettled
from apps.executions.models import Execution, Step
from apps.executions.states import ALLOWED, TERMINAL, ExecutionState, StepKind, StepState
from apps.plans.models import Plan
from apps.plans.states import PlanState

REFUSED, SILENT = "undo-refused", "undo-unreachable"
"""Causes of a stop of an execution that is being stopped itself: see `giving_up`."""
UNDONE = (StepState.COMPENSATING, StepState.COMPENSATED)


def ways_on(execution: Execution, steps: Sequence[Step]) -> tuple[Way, ...]:
    """What a person with the operator role may press now, in no special order."""
    state = ExecutionState(execution.state)
    found = []
    is_undoing = any(step.state in UNDONE for step in steps)
    if state in (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN) and not is_undoing:
        found.append(Way.RESUME)
    if ExecutionState.CANCELLING in ALLOWED[state]:
        found.append(Way.CANCEL)
    if ExecutionState.ROLLING_BACK in ALLOWED[state]:
        found.append(Way.ROLL_BACK)
    if state == ExecutionState.NEEDS_HUMAN and steps_to_settle(steps):
        found.append(Way.SETTLE)
    if state in TERMINAL and state != ExecutionState.SUCCEEDED:
        found.append(Way.ANEW if why_not_again(execution.plan) else Way.RESTART)
    return tuple(found)


def mark_of_standing(execution: Execution, steps: Sequence[Step]) -> str:
    """Tells one standing still from another: whoever goes on from one names what was shown."""
    waiting = sorted(
        (step.pk, step.state, step.reason, step.observed.get("cause", ""))
        for step in steps
        if step.observed.get("needs_person")
    )
    facts = (execution.state, execution.cause, execution.state_reason, waiting)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def require_seen(execution: Execution, steps: Sequence[Step], seen: str) -> None:
    """Inside the transaction that has locked them. seen: the mark of what was decided on, "" if none was
    shown. A page of before may speak of another stop, which another person has dealt with since.

    Raises WrongState. What stops and gives back is never asked for it."""
    if seen and seen != mark_of_standing(execution, steps):
        raise WrongState(
            f"execution {execution.pk} does not stand as your page showed it: look at what it says now, then "
            "decide"
        )


def steps_to_settle(steps: Sequence[Step]) -> list[Step]:
    """Steps whose traces could not be taken back and that wait for a person; and evictions of which nobody
    could look, while everything is given back, whether they went out."""
    return [step for step in steps if step.observed.get("needs_person") and _is_given_up(step)]


def _is_given_up(step: Step) -> bool:
    if step.state == StepState.COMPENSATING:
        return True
    return is_unsettled(step) and step.observed.get("cause") in (REFUSED, SILENT)


def why_not_again(plan: Plan) -> str:
    """Why nobody can start the plan (again) as it is; "" if an operator can."""
    if plan.state != PlanState.APPROVED:
        return f"the plan is {plan.state}"
    if plan.expires_at is not None and plan.expires_at <= timezone.now():
        return f"its approval ran out {plan.expires_at:%Y-%m-%d %H:%M} UTC"
    tries = Execution.objects.filter(plan=plan)
    under_way = tries.exclude(state__in=TERMINAL).first()
    if under_way is not None:
        return f"execution {under_way.pk} carries it out"
    done = tries.filter(state=ExecutionState.SUCCEEDED).first()
    if done is not None:
        return f"execution {done.pk} has carried it out"
    kinds = (StepKind.EVICT_POD, StepKind.PREEMPT_POD)
    touched = Step.objects.filter(execution__in=tries, kind__in=kinds, state=StepState.VERIFIED).first()
    if touched is not None:
        return f"execution {touched.execution_id} moved pods, so it does not fit the cluster any more"
    return ""
