"""What may be asked of a plan: each wish checked, or one sentence about what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.planner.plan import Goal
from apps.plans.errors import InvalidRequest, OverLimit
from apps.plans.models import ClusterPolicy
from apps.plans.policies import moves_allowed, seconds_allowed

GOALS = (Goal.FREE_NODES, Goal.UNLOCK, Goal.MIG, Goal.LOWER_MEMORY)
FOR_A_WORKLOAD = (Goal.UNLOCK, Goal.LOWER_MEMORY)
MOST_MOVES = 5000
LEAST_SECONDS, MOST_SECONDS = 1.0, 600.0


def require_within(policy: ClusterPolicy, request: Mapping[str, Any]) -> None:
    name, moves, seconds = policy.cluster.name, request["max_moves"], request["seconds"]
    if moves > moves_allowed(policy, moves):
        raise OverLimit(
            f"max_moves is {moves}, and the policy of {name} allows "
            f"{policy.max_moves_per_plan} moves a plan (max_moves_per_plan): ask for fewer"
        )
    if seconds > seconds_allowed(policy, seconds):
        raise OverLimit(
            f"seconds is {seconds:g}, and the policy of {name} allows {policy.max_seconds_per_plan} seconds "
            "of search a plan (max_seconds_per_plan): ask for fewer"
        )
    if request["may_preempt"] and not policy.may_preempt:
        raise OverLimit(
            f"the policy of {name} allows no plan to preempt pods (may_preempt): ask without it, or have an "
            "admin allow it"
        )


def checked_request(
    *,
    goal: str,
    workload: str,
    max_moves: int,
    seconds: float,
    may_preempt: bool = False,
    waivers: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    if goal not in GOALS:
        raise InvalidRequest(f"goal {goal!r} is not one of {', '.join(GOALS)}")
    if workload and goal not in FOR_A_WORKLOAD:
        raise InvalidRequest(f"goal {goal} takes no workload: leave it out, or ask for {Goal.UNLOCK}")
    _require_lowering(goal, workload, waivers)
    namespace, _, name = workload.partition("/")
    is_named = namespace and name and "/" not in name and len(workload) <= 320 and workload.isprintable()
    if workload and not is_named:
        raise InvalidRequest(f"workload {workload[:80]!r} is not of the form namespace/name")
    if not 1 <= max_moves <= MOST_MOVES:
        raise InvalidRequest(f"max_moves is {max_moves}: take 1 to {MOST_MOVES}")
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise InvalidRequest(f"seconds is {seconds:g}: take {LEAST_SECONDS:.0f} to {MOST_SECONDS:.0f}")
    if may_preempt and goal != Goal.UNLOCK:
        raise InvalidRequest(f"goal {goal} preempts nothing: leave may_preempt out, or ask for {Goal.UNLOCK}")
    if may_preempt and not workload:
        raise InvalidRequest(
            "pods give way to one workload only: name it (workload namespace/name), or leave may_preempt out"
        )
    if may_preempt and waivers:
        raise InvalidRequest("a waiver lets a pod be moved, not preempted: leave may_preempt or waivers out")
    wishes = {"goal": str(goal), "workload": workload, "max_moves": max_moves, "seconds": seconds}
    return {**wishes, "may_preempt": may_preempt, **({"waivers": list(waivers)} if waivers else {})}


def _require_lowering(goal: str, workload: str, waivers: Sequence[Mapping[str, Any]]) -> None:
    if goal != Goal.LOWER_MEMORY:
        return
    if not workload:
        raise InvalidRequest(f"goal {goal} is for one workload that waits: name it (workload namespace/name)")
    if waivers:
        raise InvalidRequest(f"goal {goal} moves nothing, so there is nothing to waive: leave waivers out")
