"""Repair: nodes whose MIG change hangs or failed go back to the layout that they had, and nothing else does.

mig-manager unpauses what it had put to sleep when it is asked for what is in force. The earlier value was
approved with the plan. The execution goes on waiting: resume cuts the node again, roll back ends it all.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.executions import ledger
from apps.executions.errors import WrongState
from apps.executions.flow import is_relaying
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.services import wake
from apps.executions.states import ExecutionState, StepState
from apps.executions.ways import require_seen

WAITING = (ExecutionState.NEEDS_HUMAN, ExecutionState.PAUSED)


def steps_to_repair(steps: Sequence[Step]) -> list[Step]:
    """Nodes between two layouts that wait for a person and have an earlier value to go back to."""
    return [
        step
        for step in steps
        if is_relaying(step)
        and step.state == StepState.BLOCKED
        and step.observed.get("needs_person")
        and step.observed.get("seen", {}).get("before") is not None
    ]


@denials_recorded()
@transaction.atomic(durable=True)
def repair_nodes(*, execution_id: int, actor: User, reason: str = "", seen: str = "") -> Execution:
    """Ask for the earlier layout of every node that hangs. The runner does it, guarded as ever. seen: as of
    `services.resume`.

    Raises Denied, WrongState (nothing waits to be repaired).
    """
    row = Execution.objects.select_for_update(no_key=True, of=("self",)).select_related("plan__cluster")
    execution = row.filter(pk=execution_id).first()
    if execution is None:
        raise WrongState(f"there is no execution {execution_id}")
    authorize(actor, Action.OPERATE, execution.plan.cluster, subject=execution)
    rows = list(Step.objects.select_for_update(no_key=True).filter(execution=execution))
    standing = steps_to_repair(rows) if execution.state in WAITING else []
    if not standing:
        raise WrongState(f"execution {execution_id} has no node whose MIG change could be repaired")
    require_seen(execution, rows, seen)
    now = ledger.database_time()
    why = f": {reason.strip()}" if reason.strip() else ""
    words = f"{actor.get_username()} asked for the earlier layout{why}"
    for step in standing:
        step.deadline_at = step.retry_at = None
        step.observed |= {"needs_person": False, "failures": 0, "crashes": 0}
        step.observed["seen"] |= {"repair": "asked", "restored_since": ""}
        step.observed.pop("stands", None)
        step.save()
        StepEvent.objects.create(
            execution=execution, step=step, at=now, fence=execution.fence, state="repair", message=words
        )
    detail = {"nodes": [step.params["node"] for step in standing], "reason": reason}
    cluster = execution.plan.cluster.name
    audit.record(actor=actor, action="execution.repair", subject=execution, cluster=cluster, detail=detail)
    wake(execution)
    return execution
