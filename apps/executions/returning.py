"""What executions moved lately on a cluster, so that no plan moves a pod in circles, or a workload often.

One rule for all plans together: the cluster's policy says how long a workload rests and how often it may be
moved in a day; where it says nothing, a pod is at least not taken back within the usual time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from apps.clusters.models import Cluster
from apps.executions.models import Step
from apps.executions.states import ExecutionState, StepKind, StepState
from apps.planner.plan import Plan
from apps.planner.returning import COOL_DOWN_SECONDS, Moved, find_returns
from apps.planner.snapshot import Snapshot
from apps.plans.models import ClusterPolicy
from apps.plans.policies import policy_of

MOST_STEPS = 5000
DAY = timedelta(days=1)


def returning_moves(
    cluster: Cluster, plan: Plan, now: datetime, picture: Snapshot | None = None
) -> dict[str, str]:
    """By the pod's UID: one sentence for each move of the plan that would undo one of the last hours, or move
    a workload that still rests. What was rolled back stands where it was, so it counts as not moved.
    picture: names the workloads; without it only pods are followed."""
    if not plan.moves:
        return {}
    policy = policy_of(cluster)
    seconds = policy.workload_cool_down_seconds or COOL_DOWN_SECONDS
    steps = _moved_since(cluster, now - max(timedelta(seconds=seconds), DAY))
    cool = now - timedelta(seconds=seconds)
    lately = [step for step in steps if step.finished_at is not None and step.finished_at >= cool]
    found = _restless(policy, plan, picture, steps, now) if picture is not None else {}
    return {**found, **find_returns(plan.moves, [_as_moved(step) for step in lately], seconds)}


def _restless(
    policy: ClusterPolicy, plan: Plan, picture: Snapshot, steps: list[Step], now: datetime
) -> dict[str, str]:
    moved: dict[str, list[datetime]] = defaultdict(list)
    for step in steps:
        if step.finished_at is not None:
            moved[step.params.get("workload", "")].append(step.finished_at)
    names = {
        move.pod_uid: f"{pod.namespace}/{picture.workload_name(pod)}"
        for move in plan.moves
        if (pod := picture.pods.get(move.pod_uid)) is not None
    }
    wanted, found = Counter(names.values()), {}
    for uid, name in names.items():
        why = _why_rests(policy, name, moved.get(name, []), wanted[name], now)
        if why:
            found[uid] = why
    return found


def _why_rests(policy: ClusterPolicy, name: str, moved: list[datetime], wanted: int, now: datetime) -> str:
    rest, most = policy.workload_cool_down_seconds, policy.max_moves_per_workload_per_day
    if rest is not None and moved:
        until = max(moved) + timedelta(seconds=rest)
        if until > now:
            return (
                f"its workload {name} was moved at {max(moved):%Y-%m-%d %H:%M} UTC and rests until "
                f"{until:%Y-%m-%d %H:%M} UTC (workload_cool_down_seconds)."
            )
    today = sum(1 for at in moved if at > now - DAY)
    if most is not None and today + wanted > most:
        return (
            f"its workload {name} was moved {today} times within a day and the plan moves {wanted} more of "
            f"its pods: the policy allows {most} (max_moves_per_workload_per_day)."
        )
    return ""


def _moved_since(cluster: Cluster, since: datetime) -> list[Step]:
    steps = (
        Step.objects.filter(
            kind=StepKind.AWAIT_REPLACEMENT,
            state=StepState.VERIFIED,
            finished_at__gte=since,
            execution__plan__cluster=cluster,
        )
        .exclude(execution__state__in=(ExecutionState.ROLLED_BACK, ExecutionState.ROLLING_BACK))
        .order_by("-finished_at")
    )
    return list(steps[:MOST_STEPS])


def _as_moved(step: Step) -> Moved:
    return Moved(
        str(step.params.get("uid", "")),
        str(step.observed.get("seen", {}).get("replacement", "")),
        str(step.params.get("source", "")),
        str(step.params.get("target", "")),
    )
