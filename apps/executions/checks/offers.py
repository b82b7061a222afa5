"""Where the policy asks for opt-in, only pods go whose owners say so by annotation when it is looked."""

from __future__ import annotations

from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.planner.protecting import why_not_offered
from apps.plans.policies import policy_of


def check_offers(look: Look) -> Iterator[Objection]:
    if not policy_of(look.version.plan.cluster).only_offered:
        return
    for pod in look.leaving:
        reason = why_not_offered(pod)
        if reason:
            yield Objection(f"The policy of the cluster moves offered pods only: {reason}.", pod.uid)
