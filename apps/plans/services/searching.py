"""A draft's search, as it goes: who computes it, what it tells, and that somebody wants it to end.

What it found is stored by `drafting`. Word of a search is no decision, so the ledger has nothing of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.services import denials_recorded
from apps.audit import services as audit
from apps.clusters import notices
from apps.plans.errors import WrongState
from apps.plans.models import Plan
from apps.plans.queries import current_version, drafts_to_compute
from apps.plans.services.changing import Check, authorize_author, lock_plan, tell
from apps.plans.services.drafting import give_up_draft
from apps.plans.states import PlanState

LEASE_SECONDS = 180.0
"""So long after a worker's last sign somebody else takes the draft. Parts of a search give no sign: reading
the snapshot, building its tables, checking the answer."""
ATTEMPTS = 3
"""A draft that takes its worker down with it is given up after this many tries."""
TOPIC = "search"


def claim_draft(*, plan_id: int) -> Plan | None:
    """Take the lease on a draft that needs computing; None if there is nothing to do or somebody has it.

    The lease ends by the database's clock, a while after the last `renew_claim`.
    """
    free = Q(computing_until__isnull=True) | Q(computing_until__lt=Now())
    plan = Plan.objects.filter(pk=plan_id).first()
    if plan is None:
        return None
    claimed = (
        drafts_to_compute()
        .filter(free, pk=plan_id, version_number=plan.version_number)
        .update(
            computing_until=Now() + timedelta(seconds=LEASE_SECONDS),
            computing_since=Now(),
            search={},
            computing_attempts=F("computing_attempts") + 1,
        )
    )
    if not claimed:
        return None
    plan = Plan.objects.select_related("cluster").get(pk=plan_id)
    if plan.computing_attempts > ATTEMPTS:
        reason = f"The planner was stopped {ATTEMPTS} times before it answered. Ask for fewer moves."
        give_up_draft(plan_id=plan_id, number=plan.version_number, reason=reason)
        return None
    _tell_search(plan)
    return plan


def renew_claim(*, plan_id: int, number: int) -> None:
    """The worker still lives."""
    _wanted(plan_id, number).update(computing_until=Now() + timedelta(seconds=LEASE_SECONDS))


def note_progress(*, plan: Plan, told: dict[str, Any]) -> None:
    """What the planner tells of its search for the plan's version; open pages hear of it."""
    until = Now() + timedelta(seconds=LEASE_SECONDS)
    if _wanted(plan.pk, plan.version_number).update(search=told, computing_until=until):
        _tell_search(plan)


@denials_recorded()
@transaction.atomic(durable=True)
def stop_search(*, plan_id: int, actor: User, check: Check | None = None) -> Plan:
    """End the search: the best plan found so far becomes the draft's version, with the gap that it has.

    Its author, its last editor, or an admin may. Asked again, or once the version is there, nothing changes.
    Raises WrongState, Denied.
    """
    plan = lock_plan(plan_id, check)
    authorize_author(actor, plan)
    if plan.state != PlanState.DRAFT or plan.state_reason and current_version(plan) is None:
        why = plan.state_reason or f"it is {plan.state}"
        raise WrongState(f"nothing is being computed for plan {plan.pk}: {why}")
    if plan.stop_asked_at is not None or current_version(plan) is not None:
        return plan
    plan.stop_asked_at = Now()
    plan.save(update_fields=["stop_asked_at"])
    plan.refresh_from_db(fields=["stop_asked_at"])
    audit.record(
        actor=actor,
        action="plan.search_stopped",
        subject=plan,
        cluster=plan.cluster.name,
        detail={"version": plan.version_number, "so_far": plan.search},
    )
    tell(plan)
    return plan


def _wanted(plan_id: int, number: int) -> Any:
    return Plan.objects.filter(pk=plan_id, version_number=number, state=PlanState.DRAFT)


def _tell_search(plan: Plan) -> None:
    notices.publish(plan.cluster.name, TOPIC, {"plan": plan.pk})
