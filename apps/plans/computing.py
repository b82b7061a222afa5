"""Turns a draft into a version: snapshot in, planner, independent check, stored. Outside any transaction.

A plan that breaks a rule of its own snapshot is never stored, whoever made it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from apps.clusters import queries as clusters
from apps.clusters.mig_manager import named_layouts
from apps.planner.mig.preferring import prefer_named
from apps.planner.plan import Goal
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.plans import services
from apps.plans.models import Plan
from apps.plans.policies import moves_allowed, policy_of
from apps.plans.titles import title_of_plan

log = structlog.get_logger(__name__)


def compute_draft(plan_id: int) -> bool:
    """Compute the version that a draft waits for. False if there was nothing to do."""
    plan = services.claim_draft(plan_id=plan_id)
    if plan is None:
        return False
    row = clusters.latest_snapshot(plan.cluster)
    if row is None:
        _give_up(plan, f"No snapshot of {plan.cluster.name} is known any more.")
        return True
    snapshot = clusters.open_snapshot(row)
    try:
        found = _search(plan, snapshot)
        violations = check_plan(snapshot, found)
    except ValueError as error:
        _give_up(plan, str(error))
        return True
    except Exception:
        # Pure code on the same snapshot fails the same way again, so the draft is not tried again.
        log.exception("the planner failed", plan=plan.pk)
        _give_up(plan, "The planner failed on this snapshot; the failure is in the console's log.")
        return True
    if violations:
        log.error("the planner broke a rule", plan=plan.pk, violations=violations)
        _give_up(plan, f"The planner's answer broke a rule and was not kept: {violations[0]}")
        return True
    services.attach_version(
        plan_id=plan.pk,
        number=plan.version_number,
        snapshot=row,
        found=found,
        title=title_of_plan(found, plan.request, snapshot),
    )
    return True


def _search(plan: Plan, snapshot: Snapshot) -> PlannerPlan:
    asked = plan.request
    request = PlanRequest(
        Goal(asked["goal"]),
        moves_allowed(policy_of(plan.cluster), asked["max_moves"]),
        asked["workload"] or None if asked["goal"] == Goal.UNLOCK else None,
    )
    found = search_plan(snapshot, request, deadline=_deadline(float(asked["seconds"])))
    if found.goal is Goal.MIG:
        return prefer_named(snapshot, found, named_layouts(plan.cluster) if found.reconfigurations else {})
    return found


def _deadline(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _give_up(plan: Plan, reason: str) -> None:
    services.give_up_draft(plan_id=plan.pk, number=plan.version_number, reason=reason)
