"""What people decide about a plan: propose, approve, reject, withdraw.

Rights are asked before the transaction (so that a refusal costs nothing) and again inside it, after
the row lock: a role that was revoked in between counts as revoked.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.errors import Denied
from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.planner.plan_json import digest as digest_of
from apps.plans.errors import (
    DigestMismatch,
    InvalidRequest,
    NothingToDo,
    OutdatedView,
    PlanIsStale,
    PlannedOnly,
    RecentLoginNeeded,
    SelfApproval,
    TicketNeeded,
    WrongState,
)
from apps.plans.models import Decision, Plan, PlanVersion
from apps.plans.policies import policy_of
from apps.plans.queries import Comparison, compare_with_now, current_version, does_something
from apps.plans.services.ageing import mark_stale
from apps.plans.services.changing import (
    Check,
    authorize_author,
    change_state,
    find_plan,
    lock_plan,
    require_can_become,
    require_version,
)
from apps.plans.states import PlanState

LONGEST_TICKET = 100


@denials_recorded()
def propose_plan(*, plan_id: int, actor: User, change_ticket: str = "", check: Check | None = None) -> Plan:
    """DRAFT to PROPOSED: from here on it waits for somebody else's decision, until it expires.

    change_ticket: at most 100 characters in the words of another system; shown at the approval.
    Raises NotComputed, TicketNeeded (the cluster's policy wants one), InvalidRequest, NothingToDo (it changes
    nothing), PlanIsStale (the cluster moved on: the plan is STALE afterwards), WrongState, Denied.
    """
    plan = find_plan(plan_id)
    authorize(actor, Action.PLAN, plan.cluster, subject=plan)
    require_can_become(plan, PlanState.PROPOSED)
    if why := plan.cluster.why_planned_only:
        raise PlannedOnly(f"plan {plan.pk} cannot be proposed: {why}")
    version = require_version(plan)
    if not does_something(version):
        raise NothingToDo(f"plan {plan.pk} changes nothing: {plan.state_reason}")
    ticket = _checked_ticket(plan, change_ticket)
    _let_go_stale(version)
    return _propose(plan_id, actor, version.number, ticket, check)


@transaction.atomic(durable=True)
def _propose(plan_id: int, actor: User, number: int, ticket: str, check: Check | None) -> Plan:
    plan = lock_plan(plan_id, check)
    authorize(actor, Action.PLAN, plan.cluster, subject=plan)
    require_can_become(plan, PlanState.PROPOSED)
    if plan.version_number != number:
        raise WrongState(f"plan {plan.pk} was edited meanwhile: look at version {plan.version_number} first")
    version = require_version(plan)
    plan.proposed_by = actor
    plan.change_ticket = ticket
    plan.proposed_at = timezone.now()
    plan.expires_at = _expiry()
    change_state(
        plan,
        PlanState.PROPOSED,
        actor=actor,
        action="plan.proposed",
        detail={"version": number, "digest": version.digest, **({"change_ticket": ticket} if ticket else {})},
        fields=("proposed_by", "proposed_at", "expires_at", "change_ticket"),
    )
    return plan


def _checked_ticket(plan: Plan, text: str) -> str:
    """One given before stands where none is given now."""
    ticket = " ".join(text.split()) or plan.change_ticket
    if len(ticket) > LONGEST_TICKET or not ticket.isprintable():
        raise InvalidRequest(f"change_ticket must be one line of at most {LONGEST_TICKET} characters")
    if not ticket and policy_of(plan.cluster).requires_ticket:
        raise TicketNeeded(
            f"plan {plan.pk} cannot be proposed without a change ticket (change_ticket): the policy of "
            f"{plan.cluster.name} requires one"
        )
    return ticket


@denials_recorded()
def approve_plan(
    *, plan_id: int, digest: str, approver: User, comment: str = "", logged_in_at: datetime | None
) -> Plan:
    """Let a proposed plan go ahead: PROPOSED to APPROVED, for exactly the version with this digest.

    logged_in_at: when the session that asks was logged in. Of two people who press the button together
    one succeeds and the other gets WrongState. Raises PlanIsStale, OutdatedView, WrongState,
    DigestMismatch, SelfApproval, RecentLoginNeeded, Denied.
    """
    plan = find_plan(plan_id)
    authorize(approver, Action.APPROVE, plan.cluster, subject=plan)
    if plan.state == PlanState.PROPOSED and (version := current_version(plan)) is not None:
        _require_fresh_view(plan, _let_go_stale(version))
    return _approve(plan_id, digest, approver, comment, logged_in_at)


@transaction.atomic(durable=True)
def _approve(plan_id: int, digest: str, approver: User, comment: str, logged_in_at: datetime | None) -> Plan:
    plan = lock_plan(plan_id)
    authorize(approver, Action.APPROVE, plan.cluster, subject=plan)
    version = _version_to_decide(plan, digest, PlanState.APPROVED)
    _require_somebody_else(plan, approver)
    _require_recent_login(plan, approver, logged_in_at)
    _decide(plan, version, approver, "approved", comment)
    plan.expires_at = _expiry(policy_of(plan.cluster).approval_expires_after_seconds)
    change_state(
        plan,
        PlanState.APPROVED,
        actor=approver,
        action="plan.approved",
        detail=_told(version, comment, plan.change_ticket),
        fields=("expires_at",),
    )
    return plan


@denials_recorded()
@transaction.atomic(durable=True)
def reject_plan(
    *, plan_id: int, digest: str, approver: User, comment: str, check: Check | None = None
) -> Plan:
    """PROPOSED to REJECTED, for good. The comment tells its author why."""
    plan = lock_plan(plan_id, check)
    authorize(approver, Action.APPROVE, plan.cluster, subject=plan)
    version = _version_to_decide(plan, digest, PlanState.REJECTED)
    _decide(plan, version, approver, "rejected", comment)
    change_state(
        plan,
        PlanState.REJECTED,
        actor=approver,
        action="plan.rejected",
        reason=comment or "Rejected without a comment.",
        detail=_told(version, comment),
    )
    return plan


@denials_recorded()
@transaction.atomic(durable=True)
def withdraw_plan(*, plan_id: int, actor: User, reason: str = "", check: Check | None = None) -> Plan:
    """Take a plan back before it begins: its author, its last editor, or an admin may."""
    plan = lock_plan(plan_id, check)
    authorize_author(actor, plan)
    require_can_become(plan, PlanState.WITHDRAWN)
    change_state(
        plan,
        PlanState.WITHDRAWN,
        actor=actor,
        action="plan.withdrawn",
        reason=reason or f"Taken back by {actor.get_username()}.",
    )
    return plan


def _version_to_decide(plan: Plan, digest: str, target: PlanState) -> PlanVersion:
    """The version that was looked at, if the locked plan still waits for a decision on exactly that."""
    require_can_become(plan, target)
    if plan.expires_at is not None and plan.expires_at <= timezone.now():
        raise WrongState(f"plan {plan.pk} expired at {plan.expires_at:%H:%M} UTC: ask for a new one")
    version = require_version(plan)
    if digest != version.digest:
        raise DigestMismatch(
            f"what you looked at ({digest[:12]}…) is not plan {plan.pk}'s version {version.number} "
            f"({version.digest[:12]}…): look at it again"
        )
    if digest_of(version.body) != version.digest:
        raise DigestMismatch(
            f"version {version.number} of plan {plan.pk} is not what was stored: do not use it"
        )
    return version


def _require_somebody_else(plan: Plan, approver: User) -> None:
    parts = {
        plan.created_by_id: "asked for",
        plan.edited_by_id: "edited",
        plan.proposed_by_id: "proposed",
    }
    if approver.pk in parts:
        raise _denied(
            SelfApproval, plan, approver, f"you {parts[approver.pk]} it: somebody else must approve it"
        )


def _require_recent_login(plan: Plan, approver: User, logged_in_at: datetime | None) -> None:
    oldest = timezone.now() - timedelta(seconds=settings.APPROVAL_LOGIN_MAX_AGE_SECONDS)
    if approver.token is not None:
        raise _denied(RecentLoginNeeded, plan, approver, "a token approves nothing: log in to the browser")
    if logged_in_at is None or logged_in_at < oldest:
        raise _denied(
            RecentLoginNeeded, plan, approver, "your login is too long ago: log in again, then approve"
        )


def _denied(kind: type[Denied], plan: Plan, actor: User, why: str) -> Denied:
    return kind(
        f"you may not approve plan {plan.pk}: {why}",
        actor=actor,
        action=Action.APPROVE,
        cluster=plan.cluster.name,
        subject=f"plans.Plan:{plan.pk}",
    )


def _let_go_stale(version: PlanVersion) -> Comparison:
    """Compare with the newest snapshot; if it no longer matches, the plan becomes STALE, then PlanIsStale."""
    comparison = compare_with_now(version)
    if comparison.changes:
        plan = mark_stale(plan_id=version.plan_id, reason=comparison.sentence, number=version.number)
        raise PlanIsStale(f"plan {plan.pk} no longer fits the cluster: {comparison.sentence}")
    return comparison


def _require_fresh_view(plan: Plan, comparison: Comparison) -> None:
    """What cannot be refreshed blocks: nobody decides on a cluster that we no longer hear from."""
    seen = comparison.seen_at
    age = (timezone.now() - seen).total_seconds() if seen else None
    if age is None or age > settings.SNAPSHOT_STALE_SECONDS:
        told = "never" if age is None else f"{age / 60:.0f} min ago"
        raise OutdatedView(
            f"{plan.cluster.name} was last heard from {told}, so nobody can tell whether plan {plan.pk} "
            "still fits: see why its watch is silent"
        )


def _decide(plan: Plan, version: PlanVersion, person: User, verdict: str, comment: str) -> None:
    Decision.objects.create(
        plan=plan, version=version, digest=version.digest, verdict=verdict, comment=comment, decided_by=person
    )


def _told(version: PlanVersion, comment: str, ticket: str = "") -> dict[str, Any]:
    told = {"version": version.number, "digest": version.digest, "comment": comment}
    return {**told, "change_ticket": ticket} if ticket else told


def _expiry(own_seconds: int | None = None) -> datetime:
    """own_seconds: the cluster's own time for it, where its policy has one."""
    return timezone.now() + timedelta(seconds=own_seconds or settings.PLAN_EXPIRES_AFTER_SECONDS)
