"""What every change of a plan does alike: lock the row, check the state, write, record, tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.accounts.errors import NotVisible
from apps.accounts.models import User
from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.accounts.services import authorize
from apps.audit import services as audit
from apps.clusters import notices
from apps.plans.errors import AlreadyBegun, NotComputed, WrongState
from apps.plans.models import Plan, PlanVersion
from apps.plans.queries import current_version
from apps.plans.states import ALLOWED, PlanState

Check = Callable[[Plan], None]
"""Called with the locked row: raises if it is no longer what the caller looked at."""


def find_plan(plan_id: int) -> Plan:
    """The plan as it is now, without a lock. Raises NotVisible if there is none."""
    return _found(Plan.objects.select_related("cluster").filter(pk=plan_id).first(), plan_id)


def lock_plan(plan_id: int, check: Check | None = None) -> Plan:
    """The plan, locked until the end of the transaction. Taken before its state is read."""
    rows = Plan.objects.select_for_update(no_key=True, of=("self",)).select_related("cluster")
    plan = _found(rows.filter(pk=plan_id).first(), plan_id)
    if check is not None:
        check(plan)
    return plan


def authorize_author(actor: User, plan: Plan) -> None:
    """Its author and its last editor may (as long as they may plan), and admins. Raises Denied."""
    is_own = actor.pk in {plan.created_by_id, plan.edited_by_id}
    if not (is_own and may(actor, Action.PLAN, plan.cluster)):
        authorize(actor, Action.ADMINISTER, plan.cluster, subject=plan)


def require_can_become(plan: Plan, target: PlanState) -> None:
    """Raises WrongState, or AlreadyBegun once an execution carries the plan out."""
    if target not in ALLOWED[PlanState(plan.state)]:
        reason = f" ({plan.state_reason})" if plan.state_reason else ""
        raise WrongState(f"plan {plan.pk} is {plan.state}{reason}, so it cannot become {target}")
    if plan.begun_at is not None:
        raise AlreadyBegun(
            f"plan {plan.pk} was started: pause or cancel its execution while it runs, "
            "else ask for a new plan"
        )


def require_version(plan: Plan) -> PlanVersion:
    """The current version. Raises NotComputed where there is none yet."""
    version = current_version(plan)
    if version is None:
        why = plan.state_reason or "it is still being computed"
        raise NotComputed(f"plan {plan.pk} has no moves to look at: {why}")
    return version


def change_state(
    plan: Plan,
    target: PlanState,
    *,
    actor: Any,
    action: str,
    reason: str = "",
    detail: dict[str, Any] | None = None,
    fields: tuple[str, ...] = (),
) -> None:
    """Write the new state of a locked plan, its ledger entry, and (on commit) the notice."""
    plan.state = target
    plan.state_reason = reason
    plan.save(update_fields=["state", "state_reason", *fields])
    told = {**({"reason": reason} if reason else {}), **(detail or {})}
    audit.record(actor=actor, action=action, subject=plan, cluster=plan.cluster.name, detail=told)
    tell(plan)


def tell(plan: Plan) -> None:
    """Tell open pages once the change is committed; nobody hears of one that is rolled back."""
    notices.publish_on_commit(plan.cluster.name, "plan", {"plan": plan.pk, "state": str(plan.state)})


def _found(plan: Plan | None, plan_id: int) -> Plan:
    if plan is None:
        raise NotVisible(f"there is no plan {plan_id} that you can see", subject=f"plans.Plan:{plan_id}")
    return plan
