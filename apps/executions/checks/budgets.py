"""Disruption budgets over the approved pods, all evictions of the plan taken together.

The dry run asks about one pod at a time and spends nothing, so ten pods of a budget that lets one go are each
allowed. What is summed here: what a budget can never allow is refused with whom to ask, what it allows one
after the other is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.planner.inventory import DisruptionBudget, Pod


def check_budgets(look: Look) -> Iterator[Objection]:
    over = {pod.uid: look.rules.budgets_of(pod) for pod in look.leaving}
    spending = Counter(budget.uid for pod in look.leaving for budget in over[pod.uid] if _spends(budget, pod))
    for pod in look.leaving:
        covering = over[pod.uid]
        if len(covering) > 1:
            names = " and ".join(budget.name for budget in covering)
            yield Objection(
                f"Disruption budgets {names} of {pod.namespace} both cover it, so the API server refuses "
                "every eviction for ever: have one of them taken away.",
                pod.uid,
            )
            continue
        for budget in covering:
            if _spends(budget, pod):
                yield from _of_one(look, pod, budget, spending[budget.uid])


def _spends(budget: DisruptionBudget, pod: Pod) -> bool:
    """One that always lets unhealthy pods go spends nothing on them."""
    return pod.ready or not budget.always_allow_unhealthy


def _of_one(look: Look, pod: Pod, budget: DisruptionBudget, wanted: int) -> Iterator[Objection]:
    allowed = budget.disruptions_allowed
    if budget.observed and allowed < 1 and budget.desired_healthy >= budget.expected_pods > 0:
        yield Objection(
            f"It needs its owner: disruption budget {budget.name} demands all {budget.expected_pods} of "
            f"{budget.expected_pods} pods of {look.name_of_owner(pod)} at any time, so no eviction is ever "
            "allowed. Ask the owner for one more replica or a lower minAvailable.",
            pod.uid,
        )
    elif budget.observed and allowed < 1:
        yield Objection(
            f"Disruption budget {budget.name} lets no pod of {look.name_of_owner(pod)} go now: "
            f"{budget.current_healthy} are healthy and {budget.desired_healthy} must be. "
            "Start again when more are, or ask its owner.",
            pod.uid,
        )
    elif wanted > allowed:
        yield Objection(
            f"budget {budget.name} lets {allowed} go at once and the plan moves {wanted}: they go one after "
            "the other",
            pod.uid,
            is_note=True,
        )
