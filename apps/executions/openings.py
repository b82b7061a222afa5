"""The transaction that turns a passed preflight into steps."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings

from apps.executions import ledger
from apps.executions.blueprint import StepDraft
from apps.executions.dry_runs import replace_dry_runs
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import DryRun, Steering, Step
from apps.executions.states import ExecutionState, StepKind


def begin_running(lease: Lease, drafts: Sequence[StepDraft], dry_runs: Sequence[DryRun]) -> None:
    """PREFLIGHT to RUNNING: the steps and their steerings are written with the change of state."""
    now = ledger.database_time()
    with hold_fence(lease) as execution:
        steps = [
            Step(
                execution=execution,
                position=position,
                kind=draft.kind,
                target=draft.target[:260],
                params=draft.params,
                move=draft.move,
                wave=draft.wave,
            )
            for position, draft in enumerate(drafts, start=1)
        ]
        Step.objects.bulk_create(steps)
        keys: dict[str, str] = defaultdict(lambda: secrets.token_hex(24))
        Steering.objects.bulk_create(
            Steering(
                step=step,
                name=step.params["steering"],
                secret=keys[step.params["steering"]],
                owner_uid=step.params["workload_uid"],
                pod_name=step.params["pod_name"],
            )
            for step in steps
            if step.kind == StepKind.STEER
        )
        replace_dry_runs(execution.version, dry_runs)
        fields: dict[str, Any] = {
            "started_at": now,
            "deadline_at": now + timedelta(seconds=settings.EXECUTION_DEADLINE_SECONDS),
        }
        reason = f"everything is as it was approved; {len(steps)} steps"
        ledger.change_state(execution, ExecutionState.RUNNING, reason, actor=None, now=now, **fields)
