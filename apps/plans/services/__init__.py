"""Every change of a plan, one function for each kind of change.

drafting: asked for, computed, edited. deciding: proposed, approved, rejected, withdrawn.
ageing: expired, stale, begun.
"""

from apps.plans.services.ageing import begin_plan, expire_plans, mark_stale, mark_stale_plans
from apps.plans.services.deciding import approve_plan, propose_plan, reject_plan, withdraw_plan
from apps.plans.services.drafting import (
    attach_version,
    claim_draft,
    give_up_draft,
    request_plan,
    revise_plan,
)

__all__ = [
    "approve_plan",
    "attach_version",
    "begin_plan",
    "claim_draft",
    "expire_plans",
    "give_up_draft",
    "mark_stale",
    "mark_stale_plans",
    "propose_plan",
    "reject_plan",
    "request_plan",
    "revise_plan",
    "withdraw_plan",
]
