"""Every change of a plan, one function for each kind of change.

drafting: asked for, stored, edited. searching: while it is computed. deciding: proposed, approved, rejected,
withdrawn. ageing: expired, stale, begun. governing: the policy of a cluster, which plans have to keep to.
"""

from apps.plans.services.ageing import begin_plan, expire_plans, mark_stale, mark_stale_plans
from apps.plans.services.changing import find_plan
from apps.plans.services.deciding import approve_plan, propose_plan, reject_plan, withdraw_plan
from apps.plans.services.drafting import attach_version, give_up_draft, request_plan, revise_plan
from apps.plans.services.governing import (
    change_policy,
    lock_policy,
    release_cluster,
    stop_cluster,
    stop_cluster_by_itself,
)
from apps.plans.services.searching import claim_draft, note_progress, renew_claim, stop_search

__all__ = [
    "approve_plan",
    "attach_version",
    "begin_plan",
    "change_policy",
    "claim_draft",
    "expire_plans",
    "find_plan",
    "give_up_draft",
    "lock_policy",
    "mark_stale",
    "mark_stale_plans",
    "note_progress",
    "propose_plan",
    "reject_plan",
    "release_cluster",
    "renew_claim",
    "request_plan",
    "revise_plan",
    "stop_cluster",
    "stop_cluster_by_itself",
    "stop_search",
    "withdraw_plan",
]
