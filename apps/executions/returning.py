"""What executions moved lately on a cluster, so that no plan moves a pod in circles."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.clusters.models import Cluster
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.planner.plan import Plan
from apps.planner.returning import COOL_DOWN_SECONDS, Moved, find_returns

MOST_STEPS = 5000


def returning_moves(cluster: Cluster, plan: Plan, now: datetime) -> dict[str, str]:
    """By the pod's UID: one sentence for each move of the plan that would undo one of the last hours. What
    was rolled back stands where it was, so it counts as not moved."""
    return find_returns(plan.moves, _moved_lately(cluster, now)) if plan.moves else {}


def _moved_lately(cluster: Cluster, now: datetime) -> list[Moved]:
    steps = (
        Step.objects.filter(
            kind=StepKind.AWAIT_REPLACEMENT,
            state=StepState.VERIFIED,
            finished_at__gte=now - timedelta(seconds=COOL_DOWN_SECONDS),
            execution__plan__cluster=cluster,
        )
        .exclude(execution__state__in=(ExecutionState.ROLLED_BACK, ExecutionState.ROLLING_BACK))
        .order_by("-finished_at")
    )
    return [
        Moved(
            str(step.params.get("uid", "")),
            str(step.observed.get("seen", {}).get("replacement", "")),
            str(step.params.get("source", "")),
            str(step.params.get("target", "")),
        )
        for step in steps[:MOST_STEPS]
    ]
