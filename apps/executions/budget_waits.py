"""Waits for a disruption budget by looking at it, instead of asking for evictions that are refused.

What the budget says is a hint only: the API server decides when the eviction is asked for, and may refuse it.
"""

from __future__ import annotations

from typing import Any

from apps.executions.context import Context
from apps.executions.decisions import Decision, blocked
from apps.executions.models import Step
from apps.executions.sightings import (
    is_finished,
    is_leaving,
    is_ready,
    migration,
    name,
    node_of,
    owner_uid,
    uid,
)
from apps.kube.errors import Forbidden
from apps.kube.gateway import BUDGETS, PODS
from apps.kube.translate import build_snapshot
from apps.planner.inventory import DisruptionBudget
from apps.planner.movability import MovabilityRules

Json = dict[str, Any]
SHOWN = 3


def wait_for_budget(context: Context, step: Step) -> Decision | None:
    """What to record instead of asking for the eviction; None if it may be asked for now."""
    namespace = step.params["namespace"]
    pod = context.gateway.get_object(PODS, step.params["name"], namespace=namespace)
    if pod is None or uid(pod) != step.params["uid"] or is_leaving(pod) or not is_ready(pod):
        return None  # no budget, or another rule, is asked about such a pod
    try:
        raw = context.gateway.list_objects(BUDGETS, namespace=namespace)
    except Forbidden:
        return None
    covering = find_covering(pod, raw)
    if len(covering) != 1:
        return None  # with more than one the server answers what a person has to mend
    budget = covering[0]
    if budget.observed and budget.disruptions_allowed > 0:
        found = next(one for one in raw if uid(one) == budget.uid)
        context.gateway.expect_spending(uid(pod), found)
        return None
    healthy = f"{budget.current_healthy} of {budget.expected_pods} pods are healthy"
    why = f"{healthy}, {budget.desired_healthy} must be" if budget.observed else "it is being counted anew"
    lost = find_nowhere(context.gateway.list_owned_pods(namespace, step.params["workload_uid"]), step)
    return blocked(
        f"The disruption budget {budget.namespace}/{budget.name} lets no pod go now: {why}."
        f"{f' {lost} waits for a node.' if lost else ''}",
        "The workload has no pod to spare now; the eviction is asked for as soon as the budget opens."
        f"{NOWHERE if lost else ''}",
        cause="budget-used-up",
        retry_seconds=0,
    )


NOWHERE = (
    " If that pod could only go where our own holds or taint keep the room, it waits for us and we for it: "
    "cancel, and ask for a new plan."
)


def find_nowhere(pods: list[Json], step: Step) -> str:
    """Pure. Pods of the same owner that have no node and are none of our replacements; a few by name."""
    owned = [pod for pod in pods if owner_uid(pod) == step.params["workload_uid"]]
    strange = [pod for pod in owned if not migration(pod)]
    waiting = [pod for pod in strange if not (node_of(pod) or is_leaving(pod) or is_finished(pod))]
    found = sorted(name(pod) for pod in waiting)
    return " and ".join(found[:SHOWN])


def find_covering(pod: Json, budgets: list[Json]) -> tuple[DisruptionBudget, ...]:
    """Pure."""
    snapshot = build_snapshot("", {PODS: [pod], BUDGETS: budgets}, 0.0)
    known = snapshot.pods.get(uid(pod))
    return MovabilityRules(snapshot).budgets_of(known) if known is not None else ()
