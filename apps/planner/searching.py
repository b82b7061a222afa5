"""One door to the planner: a request in, a plan out, with word of how far the search is.

Not in here: how each goal is reached (defrag, mig.planning), who asks, and clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apps.planner.clearing_table import Deadline
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.fallback import USUAL_LIMITS, FallbackLimits, plan_lowering
from apps.planner.mig.planning import plan_mig
from apps.planner.plan import Goal, Plan
from apps.planner.progress import Tell, tell_nobody
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What somebody wants of the planner. workload: "namespace/name" or None for all that waits
    (unlock only). may_preempt: whether less important pods may give way where moves do not suffice. stages:
    more than 1 let all that waits use room that earlier moves of the plan make; what is executed has one.
    fallback: when less memory may be offered (lower-memory only)."""

    goal: Goal
    max_moves: int
    workload: str | None = None
    may_preempt: bool = False
    stages: int = 1
    fallback: FallbackLimits = USUAL_LIMITS


def search_plan(
    snapshot: Snapshot, request: PlanRequest, *, deadline: Deadline, tell: Tell = tell_nobody
) -> Plan:
    """The best plan found before `deadline()` answers True; asked often, it must be cheap."""
    if request.goal is Goal.UNLOCK:
        return plan_unlock(
            snapshot,
            workload=request.workload,
            max_moves=request.max_moves,
            deadline=deadline,
            tell=tell,
            stages=request.stages,
            may_preempt=request.may_preempt,
        )
    if request.goal is Goal.LOWER_MEMORY:
        return plan_lowering(snapshot, request.workload or "", limits=request.fallback, deadline=deadline)
    search: Callable[..., Plan] = plan_mig if request.goal is Goal.MIG else plan_free_nodes
    return search(snapshot, max_moves=request.max_moves, deadline=deadline, tell=tell)
