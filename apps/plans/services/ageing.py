"""What happens to a plan without anybody's decision: it expires, goes stale, or begins."""

from __future__ import annotations

import structlog
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.plans.errors import DigestMismatch, WrongState
from apps.plans.models import Plan, PlanVersion
from apps.plans.queries import approval_of, compare_with_now, current_version, open_plans
from apps.plans.services.changing import change_state, lock_plan, tell
from apps.plans.states import PlanState

log = structlog.get_logger(__name__)


def expire_plans() -> int:
    """Let every plan expire whose time is up. Returns how many did."""
    due = open_plans().filter(expires_at__lte=Now()).values_list("pk", flat=True)
    return sum(_expire(plan_id) for plan_id in list(due))


@transaction.atomic(durable=True)
def _expire(plan_id: int) -> bool:
    plan = lock_plan(plan_id)
    is_open = plan.state in (PlanState.PROPOSED, PlanState.APPROVED) and plan.begun_at is None
    if not is_open or plan.expires_at is None or plan.expires_at > timezone.now():
        return False
    waited_for = "approved" if plan.state == PlanState.PROPOSED else "started"
    reason = f"It was not {waited_for} before {plan.expires_at:%Y-%m-%d %H:%M} UTC."
    change_state(plan, PlanState.EXPIRED, actor=None, action="plan.expired", reason=reason)
    return True


@transaction.atomic(durable=True)
def mark_stale(*, plan_id: int, reason: str, number: int | None = None, is_untouched: bool = False) -> Plan:
    """The cluster moved on: the plan can no longer be approved or started. Nothing happens to one that
    has begun, or has ended otherwise.

    number: the version that the reason is about; another one stays as it is. is_untouched: it has begun,
    and its execution found at preflight, before any effect, that the cluster had moved on.
    """
    plan = lock_plan(plan_id)
    can_age = plan.state in (PlanState.DRAFT, PlanState.PROPOSED, PlanState.APPROVED)
    if can_age and (plan.begun_at is None or is_untouched) and number in (None, plan.version_number):
        change_state(plan, PlanState.STALE, actor=None, action="plan.stale", reason=reason)
    return plan


def mark_stale_plans() -> int:
    """Compare every proposed or approved plan with the newest snapshot. Returns how many went stale.

    One that cannot be compared holds up no other; it is compared again before anybody decides.
    """
    count = 0
    for plan in open_plans():
        try:
            count += _is_stale_now(plan)
        except Exception:
            log.exception("a plan could not be compared with the newest snapshot", plan=plan.pk)
    return count


def _is_stale_now(plan: Plan) -> bool:
    version = current_version(plan)
    comparison = compare_with_now(version) if version else None
    if version is None or comparison is None or not comparison.changes:
        return False
    stale = mark_stale(plan_id=plan.pk, reason=comparison.sentence, number=version.number)
    return stale.state == PlanState.STALE


def begin_plan(*, plan_id: int) -> PlanVersion:
    """An execution starts: call it inside the transaction that creates the execution and records it.

    Locks the plan, and returns the version that was approved. From here on the plan does not age.
    Beginning again (a second try after a first execution ended) is fine until the approval expires.
    Raises WrongState, DigestMismatch.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a plan begins in the transaction that creates its execution")
    plan = lock_plan(plan_id)
    if plan.state != PlanState.APPROVED:
        raise WrongState(f"plan {plan.pk} is {plan.state}: only an approved plan can be started")
    if plan.expires_at is not None and plan.expires_at <= timezone.now():
        raise WrongState(f"the approval of plan {plan.pk} expired at {plan.expires_at:%H:%M} UTC")
    approval = approval_of(plan)
    if approval is None or approval.digest != approval.version.digest:
        raise DigestMismatch(f"plan {plan.pk} has no approval of its version {plan.version_number}")
    if not may(approval.decided_by, Action.APPROVE, plan.cluster):
        raise WrongState(
            f"{approval.decided_by.get_username()}, who approved plan {plan.pk}, may no longer approve on "
            f"{plan.cluster.name}: edit the plan, and have it approved by somebody who may"
        )
    if plan.begun_at is None:
        plan.begun_at = timezone.now()
        plan.save(update_fields=["begun_at"])
        tell(plan)
    return approval.version
