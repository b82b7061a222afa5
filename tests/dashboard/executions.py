"""An execution in mid-run, written as rows: one move done, one blocked, one waiting for its replacement."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from apps.clusters.queries import open_snapshot
from apps.executions.blueprint import draft_steps
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.states import StepKind, StepState
from apps.plans.models import Plan
from apps.plans.queries import current_version, open_plan

SPANS = {
    StepKind.CORDON_NODE: (2, 6),
    StepKind.HOLD_TARGET: (6, 12),
    StepKind.CHECKPOINT: (12, 30),
    StepKind.STEER: (30, 34),
    StepKind.EVICT_POD: (34, 64),
    StepKind.AWAIT_REPLACEMENT: (64, 180),
    StepKind.RELEASE: (180, 184),
}
BLOCKED = "429 from the API server: embed-svc-pdb allows 0 disruptions, 5 of 6 pods are Ready."
RUNBOOK = "Find why embed-svc-7c9f-9hk4t is not Ready. When it is, this step goes on by itself."


def make_execution(plan: Plan, operator) -> Execution:
    version = current_version(plan)
    now = timezone.now()
    execution = Execution.objects.create(
        plan=plan,
        version=version,
        state="running",
        started_by=operator,
        started_at=now - timedelta(seconds=232),
        deadline_at=now + timedelta(hours=1),
    )
    drafts = draft_steps(open_plan(version), open_snapshot(version.snapshot), owned="1-test")
    for position, draft in enumerate(drafts, 1):
        step = Step(
            execution=execution, position=position, kind=draft.kind, target=draft.target, params=draft.params,
            move=draft.move, wave=draft.wave,
        )  # fmt: skip
        _advance(step, execution)
        step.save()
        if step.state != StepState.PENDING:
            at = step.finished_at or step.intent_at
            message = step.reason or "seen in the cluster"
            StepEvent.objects.create(execution=execution, step=step, at=at, state=step.state, message=message)
    return execution


def _advance(step: Step, execution: Execution) -> None:
    is_done = step.kind in (StepKind.CORDON_NODE, StepKind.HOLD_TARGET) or step.move == 1
    is_done = is_done or (step.move in (2, 3) and step.kind in (StepKind.CHECKPOINT, StepKind.STEER))
    is_done = is_done or (step.move == 3 and step.kind == StepKind.EVICT_POD)
    begin, end = SPANS.get(StepKind(step.kind), (0, 0))
    begun = execution.started_at + timedelta(seconds=begin + step.move)
    if is_done:
        step.state, step.intent_at, step.issued_at = StepState.VERIFIED, begun, begun
        step.finished_at = execution.started_at + timedelta(seconds=end + step.move)
    elif step.move == 2 and step.kind == StepKind.EVICT_POD:
        step.state, step.intent_at, step.issued_at, step.attempts = StepState.BLOCKED, begun, begun, 9
        step.reason, step.observed = BLOCKED, {"runbook": RUNBOOK}
        step.retry_at = timezone.now() + timedelta(seconds=14)
    elif step.move == 3 and step.kind == StepKind.AWAIT_REPLACEMENT:
        step.state, step.intent_at, step.issued_at = StepState.ISSUED, begun, begun
        step.reason = "its replacement pulls the image on a100-14"
