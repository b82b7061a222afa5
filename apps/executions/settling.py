"""A person has put right by hand what could not be undone: that step is left, the rest is undone."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.executions import ledger
from apps.executions.errors import WrongState
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.services import wake
from apps.executions.states import ExecutionState
from apps.executions.ways import require_seen, steps_to_settle

STOPPING = (ExecutionState.CANCELLING, ExecutionState.ROLLING_BACK)


@denials_recorded()
@transaction.atomic(durable=True)
def settle_by_hand(*, execution_id: int, actor: User, reason: str, seen: str = "") -> Execution:
    """NEEDS_HUMAN back to the stop that was going on, without the steps that stand still.

    reason: what was done by hand; it goes into the ledger. seen: as of `services.resume`. Our cordons go as
    those of any other stop.
    Raises Denied, WrongState (nothing waits to be settled, or no reason was given).
    """
    row = Execution.objects.select_for_update(no_key=True, of=("self",)).select_related("plan__cluster")
    execution = row.filter(pk=execution_id).first()
    if execution is None:
        raise WrongState(f"there is no execution {execution_id}")
    authorize(actor, Action.OPERATE, execution.plan.cluster, subject=execution)
    steps = list(Step.objects.select_for_update(no_key=True).filter(execution=execution))
    standing = steps_to_settle(steps) if execution.state == ExecutionState.NEEDS_HUMAN else []
    if not standing:
        raise WrongState(f"execution {execution_id} has nothing that waits to be settled by hand")
    require_seen(execution, steps, seen)
    if not reason.strip():
        raise WrongState("say what was done by hand (reason): it goes into the ledger")
    now = ledger.database_time()
    words = f"{actor.get_username()} dealt with it by hand: {reason.strip()}"
    for step in standing:
        ledger.settle_step(execution, step, words, now)
    ledger.change_state(
        execution, _stop_under_way(execution), words, actor=actor, now=now, cause="stopped-by-person"
    )
    wake(execution)
    return execution


def _stop_under_way(execution: Execution) -> ExecutionState:
    asked = StepEvent.objects.filter(execution=execution, step=None, state__in=STOPPING).last()
    return ExecutionState(asked.state) if asked is not None else ExecutionState.CANCELLING
