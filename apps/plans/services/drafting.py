"""Asking for a plan, storing what was found for it, asking for it anew. Between them lies `searching`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.pending.queries import refused_by_queue
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.plan_json import digest, plan_to_dict
from apps.plans.errors import NotAdmitted, NothingKnown, TooManyDrafts
from apps.plans.models import Plan, PlanVersion
from apps.plans.policies import USUAL_MOVES, USUAL_SECONDS, moves_allowed, policy_of, seconds_allowed
from apps.plans.queries import does_something, drafts_to_compute
from apps.plans.request_rules import checked_request, require_within
from apps.plans.services.changing import (
    Check,
    change_state,
    find_plan,
    lock_plan,
    require_can_become,
    tell,
)
from apps.plans.states import PlanState
from apps.plans.titles import title_of_request
from apps.plans.waivers import named_waivers
from apps.plans.waking import wake_worker

MOST_DRAFTS = 10
"""As many plans may one person have in computing at once: planning is the console's dearest work."""


@denials_recorded()
def request_plan(
    *,
    actor: User,
    cluster: Cluster,
    goal: str,
    workload: str = "",
    max_moves: int | None = None,
    seconds: float | None = None,
    may_preempt: bool = False,
    waivers: Sequence[Mapping[str, Any]] = (),
) -> Plan:
    """Ask for a plan on the newest snapshot: a DRAFT whose version the worker computes.

    workload: "namespace/name" of the gang or pod to unlock; empty takes all that waits. seconds: how
    long the planner may search. max_moves, seconds: as usual, within the cluster's policy, if none are
    named. may_preempt: less important pods may lose their place where moves do not suffice. waivers:
    protected pods that may be moved all the same, each {"pod": "namespace/name", "reason"}.
    Raises InvalidRequest, OverLimit, NotAdmitted, NothingKnown, TooManyDrafts, Denied.
    """
    authorize(actor, Action.PLAN, cluster)
    policy = policy_of(cluster)
    moves = moves_allowed(policy, USUAL_MOVES) if max_moves is None else max_moves
    limit = seconds_allowed(policy, USUAL_SECONDS) if seconds is None else seconds
    request = checked_request(
        goal=goal,
        workload=workload,
        max_moves=moves,
        seconds=limit,
        may_preempt=may_preempt,
        waivers=_named(actor, cluster, waivers),
    )
    require_within(policy, request)
    row = latest_snapshot(cluster)
    if row is None:
        raise NothingKnown(f"no snapshot of {cluster.name} is known yet: check that it is being watched")
    _require_admitted(row, request["workload"])
    if drafts_to_compute().filter(created_by=actor).count() >= MOST_DRAFTS:
        raise TooManyDrafts(f"{MOST_DRAFTS} of your plans are being computed: wait for one of them")
    return _create_draft(actor, cluster, request)


@denials_recorded()
def revise_plan(
    *,
    plan_id: int,
    actor: User,
    max_moves: int | None = None,
    seconds: float | None = None,
    may_preempt: bool | None = None,
    waivers: Sequence[Mapping[str, Any]] | None = None,
    check: Check | None = None,
) -> Plan:
    """Edit a plan: it becomes a DRAFT again and its next version is computed on the newest snapshot.

    Whatever was decided on the version before is void, and the editor may not approve the new one. What is
    None stays as it is; waivers replace all earlier ones.
    """
    changed: dict[str, Any] = {
        "max_moves": max_moves,
        "seconds": seconds,
        "may_preempt": may_preempt,
        "waivers": None,
    }
    plan = find_plan(plan_id)
    authorize(actor, Action.PLAN, plan.cluster, subject=plan)
    if waivers is not None:
        changed["waivers"] = _named(actor, plan.cluster, waivers)
    row = latest_snapshot(plan.cluster)
    if row is not None:
        _require_admitted(row, plan.request["workload"])
    return _revise(plan_id, actor, changed, check)


@transaction.atomic(durable=True)
def _revise(plan_id: int, actor: User, changed: Mapping[str, Any], check: Check | None) -> Plan:
    plan = lock_plan(plan_id, check)
    authorize(actor, Action.PLAN, plan.cluster, subject=plan)
    require_can_become(plan, PlanState.DRAFT)
    wishes = {**plan.request, **{name: value for name, value in changed.items() if value is not None}}
    policy = policy_of(plan.cluster)
    if changed["max_moves"] is None:
        wishes["max_moves"] = moves_allowed(policy, wishes["max_moves"])
    if changed["seconds"] is None:
        wishes["seconds"] = seconds_allowed(policy, wishes["seconds"])
    plan.request = checked_request(**wishes)
    require_within(policy, plan.request)
    plan.edited_by = actor
    plan.version_number += 1
    plan.proposed_by = plan.proposed_at = plan.expires_at = None
    fields = ("request", "edited_by", "version_number", "proposed_by", "proposed_at", "expires_at")
    change_state(
        plan,
        PlanState.DRAFT,
        actor=actor,
        action="plan.edited",
        detail={"version": plan.version_number, "request": plan.request},
        fields=(*fields, *_forget_search(plan)),
    )
    _wake(plan.pk)
    return plan


@transaction.atomic(durable=True)
def attach_version(
    *,
    plan_id: int,
    number: int,
    snapshot: Snapshot,
    found: PlannerPlan,
    title: str,
    ending: str = "",
    search_seconds: float | None = None,
) -> PlanVersion | None:
    """Store what the planner found as version `number`; it never changes afterwards.

    ending: a SearchEnding where the search was cut short.

    None if it is no longer wanted: the plan was edited or withdrawn meanwhile, or it is there already.
    """
    plan = lock_plan(plan_id)
    wanted = plan.state == PlanState.DRAFT and plan.version_number == number
    if not wanted or plan.versions.filter(number=number).exists():
        return None
    version = _create_version(
        plan, snapshot, plan_to_dict(found), ending=ending, search_seconds=search_seconds
    )
    plan.title = title
    plan.state_reason = "" if does_something(version) else _why_nothing(found)
    plan.save(update_fields=["title", "state_reason", *_forget_search(plan)])
    audit.record(
        actor=None,
        action="plan.computed",
        subject=plan,
        cluster=plan.cluster.name,
        detail={"version": number, "digest": version.digest, **_counts(found)},
    )
    tell(plan)
    return version


def _create_version(plan: Plan, snapshot: Snapshot, body: dict[str, Any], **facts: Any) -> PlanVersion:
    version = PlanVersion.objects.create(
        plan=plan,
        number=plan.version_number,
        snapshot=snapshot,
        snapshot_taken_at=snapshot.taken_at,
        snapshot_digest=snapshot.digest,
        body=body,
        digest=digest(body),
        **facts,
    )
    version.refresh_from_db(fields=["body"])
    if digest(version.body) != version.digest:
        raise RuntimeError(f"the database keeps plan {plan.pk} in other words than it was given")
    return version


def _counts(found: PlannerPlan) -> dict[str, int]:
    return {
        "moves": len(found.moves),
        "reconfigurations": len(found.reconfigurations),
        "preemptions": len(found.preemptions),
    }


def _why_nothing(found: PlannerPlan) -> str:
    refused = [f"{one.pod}: {one.reason}" for one in found.refused[:3]]
    return found.sentence or " ".join(refused) or "There is nothing to move."


@transaction.atomic(durable=True)
def give_up_draft(*, plan_id: int, number: int, reason: str) -> None:
    """Leave a draft without its version, and say why."""
    plan = lock_plan(plan_id)
    if plan.state != PlanState.DRAFT or plan.version_number != number:
        return
    plan.state_reason = reason
    plan.save(update_fields=["state_reason", *_forget_search(plan)])
    audit.record(
        actor=None,
        action="plan.not_computed",
        subject=plan,
        cluster=plan.cluster.name,
        detail={"version": number, "reason": reason},
    )
    tell(plan)


@transaction.atomic(durable=True)
def _create_draft(actor: User, cluster: Cluster, request: dict[str, Any]) -> Plan:
    authorize(actor, Action.PLAN, cluster)
    plan = Plan.objects.create(
        cluster=cluster, title=title_of_request(request), request=request, created_by=actor, edited_by=actor
    )
    audit.record(
        actor=actor, action="plan.requested", subject=plan, cluster=cluster.name, detail={"request": request}
    )
    tell(plan)
    _wake(plan.pk)
    return plan


def _forget_search(plan: Plan) -> list[str]:
    """No search goes on; the names of the fields that say so."""
    plan.computing_until = plan.computing_since = plan.stop_asked_at = None
    plan.computing_attempts, plan.search = 0, {}
    return ["computing_until", "computing_since", "stop_asked_at", "computing_attempts", "search"]


def _wake(plan_id: int) -> None:
    """Only a hint: the timer finds the draft as well if the broker is away."""
    transaction.on_commit(lambda: wake_worker("apps.plans.tasks.compute_plan", plan_id), robust=True)


def _require_admitted(row: Snapshot, workload: str) -> None:
    """A plan for what its queue does not admit would move pods for nothing."""
    refused = refused_by_queue(open_snapshot(row), workload) if workload else None
    if refused is not None:
        raise NotAdmitted(f"{workload} would not start in any room ({refused.code}): {refused.sentence}")


def _named(actor: User, cluster: Cluster, wishes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not wishes:
        return []
    row = latest_snapshot(cluster)
    if row is None:
        raise NothingKnown(f"no snapshot of {cluster.name} is known yet: check that it is being watched")
    return named_waivers(open_snapshot(row), wishes, actor.get_username())
