"""Turns a draft into a version: snapshot in, planner, independent check, stored. Outside any transaction.

A plan that breaks a rule of its own snapshot is never stored, whoever made it.
"""

from __future__ import annotations

import structlog

from apps.clusters import queries as clusters
from apps.clusters.mig_manager import named_layouts
from apps.planner.mig.preferring import prefer_named
from apps.planner.plan import Goal
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.searching import PlanRequest, search_plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.planner.waiving import waive
from apps.plans import queries, services
from apps.plans.models import Plan
from apps.plans.policies import fallback_limits, moves_allowed, policy_of, seconds_allowed
from apps.plans.request_rules import FOR_A_WORKLOAD
from apps.plans.search_watch import SearchWatch
from apps.plans.titles import title_of_plan
from apps.plans.waivers import waivers_of, with_used_waivers

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
    watch = SearchWatch(plan, limit=seconds_allowed(policy_of(plan.cluster), float(plan.request["seconds"])))
    found = _find(plan, snapshot, watch)
    if found is not None:
        services.attach_version(
            plan_id=plan.pk,
            number=plan.version_number,
            snapshot=row,
            found=found,
            title=title_of_plan(found, plan.request, snapshot),
            ending=watch.ending,
            search_seconds=round(watch.seconds, 3),
        )
    return True


def _find(plan: Plan, snapshot: Snapshot, watch: SearchWatch) -> PlannerPlan | None:
    """What the planner found, checked; None where there is nothing to keep, and the draft says why."""
    try:
        found = _search(plan, snapshot, watch)
        if not queries.is_search_wanted(plan_id=plan.pk, number=plan.version_number):
            return None
        violations = check_plan(snapshot, found)
    except ValueError as error:
        _give_up(plan, str(error))
        return None
    except Exception:
        # Pure code on the same snapshot fails the same way again, so the draft is not tried again.
        log.exception("the planner failed", plan=plan.pk)
        _give_up(plan, "The planner failed on this snapshot; the failure is in the console's log.")
        return None
    if violations:
        log.error("the planner broke a rule", plan=plan.pk, violations=violations)
        _give_up(plan, f"The planner's answer broke a rule and was not kept: {violations[0]}")
        return None
    return found


def _search(plan: Plan, snapshot: Snapshot, watch: SearchWatch) -> PlannerPlan:
    asked, policy = plan.request, policy_of(plan.cluster)
    request = PlanRequest(
        Goal(asked["goal"]),
        moves_allowed(policy, asked["max_moves"]),
        asked["workload"] or None if asked["goal"] in FOR_A_WORKLOAD else None,
        may_preempt=bool(asked.get("may_preempt")) and policy.may_preempt,
        fallback=fallback_limits(policy),
    )
    waivers = waivers_of(asked)
    found = search_plan(waive(snapshot, waivers), request, deadline=watch.is_over, tell=watch.hear)
    found = with_used_waivers(found, waivers)
    if found.goal is Goal.MIG:
        return prefer_named(snapshot, found, named_layouts(plan.cluster) if found.reconfigurations else {})
    return found


def _give_up(plan: Plan, reason: str) -> None:
    services.give_up_draft(plan_id=plan.pk, number=plan.version_number, reason=reason)
