"""How an execution is paused by a ban of its cluster's policy, and goes on again.

What bans there are is `permission`'s; what a person pauses is `services`'.
"""

from __future__ import annotations

from django.db import transaction

from apps.executions import ledger
from apps.executions.before_effects import UNREADABLE
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Execution, Step
from apps.executions.safe_mode import ban_of_safe_mode
from apps.executions.states import ExecutionState, StepState
from apps.plans.policies import (
    CLUSTER_SWITCH,
    FREEZE,
    KILL_SWITCH,
    OTHER_CONSOLE,
    OUTSIDE,
    SAFE_MODE,
    SWITCH_UNREAD,
    Ban,
)

State = ExecutionState
ANOTHER = "another-console"
CAUSES_OF_BANS = {
    FREEZE: "freeze-window",
    OUTSIDE: "freeze-window",
    KILL_SWITCH: "kill-switch",
    CLUSTER_SWITCH: "kill-switch-cluster",
    SWITCH_UNREAD: UNREADABLE,
    OTHER_CONSOLE: ANOTHER,
    SAFE_MODE: "database-old",
}
GOES_ON = {
    UNREADABLE: "The kill switch in the cluster can be read again: it goes on by itself.",
    ANOTHER: "No other console has the cluster any more: it goes on by itself.",
}


def stand_in_safe_mode(execution_id: int) -> bool:
    """Whatever its state: what this database says of it may be long over, so nothing is looked at or sent.

    Needs no claim, as little as a person who pauses does: fences that go on being counted would soon pass
    those that the cluster carries, which tell how old this database is."""
    with transaction.atomic(durable=True):
        row = Execution.objects.select_for_update(no_key=True, of=("self",)).get(pk=execution_id)
        ban = ban_of_safe_mode(row.plan.cluster)
        if ban is None:
            return True  # a person left it meanwhile
        if row.state == State.RUNNING:
            words, facts = f"{ban.short[:1].upper()}{ban.short[1:]}.", {"cause": CAUSES_OF_BANS[ban.kind]}
            ledger.change_state(
                row, State.PAUSED, words, actor=None, now=ledger.database_time(), is_frozen=False, **facts
            )
            return True
        return _keep_paused(row, ban)


def pause_by(lease: Lease, execution: Execution, ban: Ban) -> None:
    words = f"{ban.short[:1].upper()}{ban.short[1:]}."
    deadline = execution.deadline_at
    if ban.ends_by_itself and deadline is not None and (ban.until is None or ban.until > deadline):
        own = f"its own deadline, {deadline:%Y-%m-%d %H:%M} UTC"
        if ban.until is None:
            words += f" If that lasts until {own}, it is cancelled then and gives everything back."
        else:
            words += (
                f" {own[:1].upper()}{own[1:]}, comes first: it is cancelled then and gives everything back."
            )
    ledger.move_execution(
        lease, State.PAUSED, words, is_frozen=ban.ends_by_itself, cause=CAUSES_OF_BANS[ban.kind]
    )


def wait_for_person(lease: Lease, ban: Ban) -> bool:
    """Once the kill switch was thrown nothing goes on by itself. Landing goes on in the turns that follow."""
    with hold_fence(lease) as row:
        _keep_paused(row, ban)
    return True


def _keep_paused(row: Execution, ban: Ban) -> bool:
    """Inside a transaction that has locked the row. False if it does not wait by itself: a person decided."""
    if not (row.state == State.PAUSED and row.is_frozen):
        return False
    row.is_frozen = False
    row.state_reason = f"{ban.short[:1].upper()}{ban.short[1:]}."
    row.cause = CAUSES_OF_BANS[ban.kind]
    row.save(update_fields=["is_frozen", "state_reason", "cause"])
    return True


def go_on(lease: Lease) -> bool:
    """Steps that stood still have their whole time ahead of them."""
    standing = (StepState.PENDING, StepState.BLOCKED, StepState.INTENT, StepState.ISSUED)
    with hold_fence(lease) as row:
        if not (row.state == State.PAUSED and row.is_frozen):
            return True  # a person decided meanwhile
        Step.objects.filter(execution=row, state__in=standing).update(deadline_at=None, retry_at=None)
        now = ledger.database_time()
        reason = "The freeze window is over: it goes on by itself."
        if row.state_reason.startswith("Paused until the maintenance window"):
            reason = "The maintenance window is open: it goes on by itself."
        reason = GOES_ON.get(row.cause, reason)
        ledger.change_state(row, State.RUNNING, reason, actor=None, now=now, is_frozen=False)
    return True
