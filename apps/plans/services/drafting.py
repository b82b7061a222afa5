"""Asking for a plan, the lease of the worker that computes it, and storing what it found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import latest_snapshot
from apps.planner.plan import Goal
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.plan_json import digest, plan_to_dict
from apps.plans.errors import InvalidRequest, NothingKnown, OverLimit, TooManyDrafts
from apps.plans.models import ClusterPolicy, Plan, PlanVersion
from apps.plans.policies import USUAL_MOVES, moves_allowed, policy_of
from apps.plans.queries import drafts_to_compute
from apps.plans.services.changing import Check, change_state, lock_plan, require_can_become, tell
from apps.plans.states import PlanState
from apps.plans.titles import title_of_request
from apps.plans.waking import wake_worker

GOALS = (Goal.FREE_NODES, Goal.UNLOCK, Goal.MIG)
MOST_MOVES = 5000
MOST_SECONDS = 120.0
MOST_DRAFTS = 10
"""As many plans may one person have in computing at once: planning is the console's dearest work."""
ATTEMPTS = 3
"""A draft that takes its worker down with it is given up after this many tries."""


@denials_recorded()
def request_plan(
    *,
    actor: User,
    cluster: Cluster,
    goal: str,
    workload: str = "",
    max_moves: int | None = None,
    seconds: float = 10,
) -> Plan:
    """Ask for a plan on the newest snapshot: a DRAFT whose version the worker computes.

    workload: "namespace/name" of the gang or pod to unlock; empty takes all that waits. seconds: how
    long the planner may search. max_moves: as usual, within the cluster's policy, if none are named.
    Raises InvalidRequest, OverLimit, NothingKnown, TooManyDrafts, Denied.
    """
    authorize(actor, Action.PLAN, cluster)
    policy = policy_of(cluster)
    moves = moves_allowed(policy, USUAL_MOVES) if max_moves is None else max_moves
    request = _checked_request(goal=goal, workload=workload, max_moves=moves, seconds=seconds)
    _require_within(policy, moves)
    if latest_snapshot(cluster) is None:
        raise NothingKnown(f"no snapshot of {cluster.name} is known yet: check that it is being watched")
    if drafts_to_compute().filter(created_by=actor).count() >= MOST_DRAFTS:
        raise TooManyDrafts(f"{MOST_DRAFTS} of your plans are being computed: wait for one of them")
    return _create_draft(actor, cluster, request)


@denials_recorded()
@transaction.atomic(durable=True)
def revise_plan(
    *,
    plan_id: int,
    actor: User,
    max_moves: int | None = None,
    seconds: float | None = None,
    check: Check | None = None,
) -> Plan:
    """Edit a plan: it becomes a DRAFT again and its next version is computed on the newest snapshot.

    Whatever was decided on the version before is void, and the editor may not approve the new one.
    """
    plan = lock_plan(plan_id, check)
    authorize(actor, Action.PLAN, plan.cluster, subject=plan)
    require_can_become(plan, PlanState.DRAFT)
    changed = {"max_moves": max_moves, "seconds": seconds}
    wishes = {**plan.request, **{name: value for name, value in changed.items() if value is not None}}
    policy = policy_of(plan.cluster)
    if max_moves is None:
        wishes["max_moves"] = moves_allowed(policy, wishes["max_moves"])
    plan.request = _checked_request(**wishes)
    _require_within(policy, plan.request["max_moves"])
    plan.edited_by = actor
    plan.version_number += 1
    plan.proposed_by = plan.proposed_at = plan.expires_at = plan.computing_until = None
    plan.computing_attempts = 0
    fields = ("request", "edited_by", "version_number", "proposed_by", "proposed_at", "expires_at")
    change_state(
        plan,
        PlanState.DRAFT,
        actor=actor,
        action="plan.edited",
        detail={"version": plan.version_number, "request": plan.request},
        fields=(*fields, "computing_until", "computing_attempts"),
    )
    _wake(plan.pk)
    return plan


def claim_draft(*, plan_id: int) -> Plan | None:
    """Take the lease on a draft that needs computing; None if there is nothing to do or somebody has it.

    The lease ends by the database's clock, well after the planner's own time-out.
    """
    free = Q(computing_until__isnull=True) | Q(computing_until__lt=Now())
    plan = Plan.objects.filter(pk=plan_id).first()
    if plan is None:
        return None
    seconds = float(plan.request["seconds"]) + MOST_SECONDS
    claimed = (
        drafts_to_compute()
        .filter(free, pk=plan_id, version_number=plan.version_number)
        .update(
            computing_until=Now() + timedelta(seconds=seconds),
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
    return plan


@transaction.atomic(durable=True)
def attach_version(
    *, plan_id: int, number: int, snapshot: Snapshot, found: PlannerPlan, title: str
) -> PlanVersion | None:
    """Store what the planner found as version `number`; it never changes afterwards.

    None if it is no longer wanted: the plan was edited or withdrawn meanwhile, or it is there already.
    """
    plan = lock_plan(plan_id)
    wanted = plan.state == PlanState.DRAFT and plan.version_number == number
    if not wanted or plan.versions.filter(number=number).exists():
        return None
    body = plan_to_dict(found)
    version = PlanVersion.objects.create(
        plan=plan,
        number=number,
        snapshot=snapshot,
        snapshot_taken_at=snapshot.taken_at,
        snapshot_digest=snapshot.digest,
        body=body,
        digest=digest(body),
    )
    version.refresh_from_db(fields=["body"])
    if digest(version.body) != version.digest:
        raise RuntimeError(f"the database keeps plan {plan_id} in other words than it was given")
    plan.title = title
    plan.computing_until = None
    plan.state_reason = "" if found.moves or found.reconfigurations else _why_nothing(found)
    plan.save(update_fields=["title", "computing_until", "state_reason"])
    audit.record(
        actor=None,
        action="plan.computed",
        subject=plan,
        cluster=plan.cluster.name,
        detail={"version": number, "digest": version.digest, **_counts(found)},
    )
    tell(plan)
    return version


def _counts(found: PlannerPlan) -> dict[str, int]:
    return {"moves": len(found.moves), "reconfigurations": len(found.reconfigurations)}


def _why_nothing(found: PlannerPlan) -> str:
    refused = [f"{one.pod}: {one.reason}" for one in found.refused[:3]]
    return found.sentence or " ".join(refused) or "There is nothing to move."


@transaction.atomic(durable=True)
def give_up_draft(*, plan_id: int, number: int, reason: str) -> None:
    """Leave a draft without its version, and say why."""
    plan = lock_plan(plan_id)
    if plan.state != PlanState.DRAFT or plan.version_number != number:
        return
    plan.computing_until = None
    plan.state_reason = reason
    plan.save(update_fields=["computing_until", "state_reason"])
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


def _wake(plan_id: int) -> None:
    """Only a hint: the timer finds the draft as well if the broker is away."""
    transaction.on_commit(lambda: wake_worker("apps.plans.tasks.compute_plan", plan_id), robust=True)


def _require_within(policy: ClusterPolicy, max_moves: int) -> None:
    if max_moves > moves_allowed(policy, max_moves):
        raise OverLimit(
            f"max_moves is {max_moves}, and the policy of {policy.cluster.name} allows "
            f"{policy.max_moves_per_plan} moves a plan (max_moves_per_plan): ask for fewer"
        )


def _checked_request(*, goal: str, workload: str, max_moves: int, seconds: float) -> dict[str, Any]:
    if goal not in GOALS:
        raise InvalidRequest(f"goal {goal!r} is not one of {', '.join(GOALS)}")
    if workload and goal != Goal.UNLOCK:
        raise InvalidRequest(f"goal {goal} takes no workload: leave it out, or ask for {Goal.UNLOCK}")
    namespace, _, name = workload.partition("/")
    is_named = namespace and name and "/" not in name and len(workload) <= 320 and workload.isprintable()
    if workload and not is_named:
        raise InvalidRequest(f"workload {workload[:80]!r} is not of the form namespace/name")
    if not 1 <= max_moves <= MOST_MOVES:
        raise InvalidRequest(f"max_moves is {max_moves}: take 1 to {MOST_MOVES}")
    if not 0.1 <= seconds <= MOST_SECONDS:
        raise InvalidRequest(f"seconds is {seconds}: take 0.1 to {MOST_SECONDS:.0f}")
    return {"goal": str(goal), "workload": workload, "max_moves": max_moves, "seconds": seconds}
