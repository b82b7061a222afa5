"""What became of a plan, in a word: its own state until it was begun, then that of its newest execution."""

from __future__ import annotations

from collections.abc import Mapping

from apps.dashboard.reading.plan_page import STATES
from apps.executions.states import ExecutionState
from apps.plans.models import Plan
from apps.plans.queries import execution_state_of
from apps.plans.states import PlanState

ENDS: Mapping[str, tuple[str, str, str]] = {
    ExecutionState.SUCCEEDED: ("Carried out", "ok", "ok"),
    ExecutionState.CANCELLED: ("Ended: cancelled", "", "x"),
    ExecutionState.ROLLED_BACK: ("Ended: rolled back", "", "x"),
    ExecutionState.FAILED: ("Ended: failed", "bad", "x"),
}
UNDER_WAY: Mapping[str, tuple[str, str, str]] = {
    ExecutionState.PAUSED: ("Under way, paused", "warn", "tri"),
    ExecutionState.CANCELLING: ("Under way, cancelling", "warn", "half"),
    ExecutionState.ROLLING_BACK: ("Under way, rolling back", "warn", "half"),
    ExecutionState.NEEDS_HUMAN: ("Under way, needs a person", "bad", "oct"),
}


def tell_fate(plan: Plan) -> tuple[str, str, str]:
    """Words, tone and symbol. Over many plans: with `prefetch_related("executions")`."""
    state = execution_state_of(plan) if plan.state == PlanState.APPROVED and plan.begun_at else None
    if state is None:
        return STATES[plan.state]
    return ENDS.get(state) or UNDER_WAY.get(state) or ("Under way", "info", "half")
