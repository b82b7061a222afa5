"""Whether the people behind an execution still may what they did, and the approval still holds.

Asked at start, at the preflight, and of who started it before every effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.executions.checks.looking import Look, Objection
from apps.plans.queries import approval_of


def check_authority(look: Look) -> Iterator[Objection]:
    plan = look.version.plan
    approval = approval_of(plan)
    if approval is None or approval.digest != look.version.digest:
        if plan.begun_at is not None:
            yield Objection(f"Plan {plan.pk} has no approval of this version: have it approved first.")
        return
    by = approval.decided_by
    if not may(by, Action.APPROVE, plan.cluster):
        yield Objection(
            f"{by.get_username()}, who approved plan {plan.pk}, may no longer approve on "
            f"{plan.cluster.name}: have a new plan approved by somebody who may."
        )
    if plan.expires_at is not None and plan.expires_at <= look.now:
        yield Objection(
            f"The approval of plan {plan.pk} expired at {plan.expires_at:%Y-%m-%d %H:%M} UTC: "
            "ask for a new plan."
        )
