"""The whole against what was promised, on a fresh picture, by the planner's independent code.

Taken while our cordons of freed nodes still stand: a moment later anybody may use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from apps.executions import ledger
from apps.executions.context import Context
from apps.executions.locks import hold_fence
from apps.executions.models import Step
from apps.executions.pictures import take_picture
from apps.executions.states import StepKind, StepState
from apps.planner.plan import Goal, HandOver, Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import compare_outcome
from apps.plans import queries as plans


def verify_outcome(context: Context) -> None:
    """Compare once and store the outcome. Raises KubeError if the cluster cannot be read."""
    execution = context.execution
    after = take_picture(
        context.gateway.list_kept,
        cluster=execution.plan.cluster.name,
        taken_at=ledger.database_time().timestamp(),
    )
    plan = as_carried_out(plans.open_plan(execution.version), context.steps, after)
    found = compare_outcome(plan, after, find_successors(context.steps), find_offers(context.steps))
    with hold_fence(context.lease) as row:
        row.outcome = {
            "matches": found.matches,
            "promised": list(found.promised),
            "found": list(found.found),
            "differences": list(found.differences),
        }
        row.save(update_fields=["outcome"])


def find_successors(steps: Sequence[Step]) -> dict[str, str]:
    """UID of each moved pod -> UID of its replacement, as the ledger knows them."""
    landed = [step for step in steps if step.kind == StepKind.AWAIT_REPLACEMENT]
    pairs = {step.params["uid"]: step.observed.get("seen", {}).get("replacement", "") for step in landed}
    return {old: new for old, new in pairs.items() if new}


def tell_elsewhere(steps: Sequence[Step]) -> str:
    """Replacements that did not count, because they run on other nodes than planned; "" if there are none."""
    missed = [s for s in steps if s.kind == StepKind.AWAIT_REPLACEMENT and s.state == StepState.SUPERSEDED]
    seen = [(step.params, step.observed.get("seen", {})) for step in missed]
    told = [
        f"{known.get('replacement_name', '')} on {known['landed_on']}"
        for params, known in seen
        if known.get("landed_on", params["target"]) != params["target"]
    ]
    return f" Not where it was planned, but Ready: {', '.join(told)}." if told else ""


def find_offers(steps: Sequence[Step]) -> dict[str, dict[str, int]]:
    """By relaid node: what it was to offer."""
    return {
        step.params["node"]: step.params["offers"] for step in steps if step.kind == StepKind.RECONFIGURE_MIG
    }


def as_carried_out(plan: Plan, steps: Sequence[Step], after: Snapshot) -> Plan:
    """Without the moves of pods that ended by themselves, and with the hand-overs as the gang took them:
    its pods are alike, and which one starts on which of its nodes is the scheduler's choice."""
    ended = {
        step.params["uid"]
        for step in steps
        if step.kind == StepKind.AWAIT_REPLACEMENT and step.state == StepState.SUPERSEDED
    }
    moves = tuple(move for move in plan.moves if move.pod_uid not in ended)
    hand_overs = plan.hand_overs
    if plan.goal == Goal.MIG:
        kept = {step.params["node"] for step in steps if step.kind == StepKind.HAND_OVER}
        hand_overs = tuple(_as_placed(one, after, kept) for one in hand_overs)
    return replace(plan, moves=moves, hand_overs=_as_taken(hand_overs, after))


def _as_placed(one: HandOver, after: Snapshot, kept: Collection[str]) -> HandOver:
    """Which idle instance a waiting pod takes is the scheduler's choice where no node was kept for it."""
    pod = after.pods.get(one.pod_uid)
    is_free_choice = one.node not in kept and pod is not None and pod.is_holding
    return replace(one, node=pod.node_name) if is_free_choice and pod is not None else one


def _as_taken(hand_overs: tuple[HandOver, ...], after: Snapshot) -> tuple[HandOver, ...]:
    left: dict[str, Counter[str]] = {}
    for one in hand_overs:
        left.setdefault(_gang_of(one, after), Counter())[one.node] += 1
    taken: dict[str, str] = {}
    for one in hand_overs:
        pod, nodes = after.pods.get(one.pod_uid), left[_gang_of(one, after)]
        if pod is not None and nodes[pod.node_name] > 0:
            nodes[pod.node_name] -= 1
            taken[one.pod_uid] = pod.node_name
    for one in hand_overs:
        if one.pod_uid not in taken:
            nodes = left[_gang_of(one, after)]
            taken[one.pod_uid] = next(iter(nodes.elements()))
            nodes[taken[one.pod_uid]] -= 1
    return tuple(replace(one, node=taken[one.pod_uid]) for one in hand_overs)


def _gang_of(hand_over: HandOver, after: Snapshot) -> str:
    pod = after.pods.get(hand_over.pod_uid)
    return (pod.gang if pod is not None else "") or hand_over.pod
