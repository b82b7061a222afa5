"""What a plan is called: one line that says what people get. Pure text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.planner.naming import family_of
from apps.planner.plan import Goal, Plan
from apps.planner.snapshot import Snapshot

LONGEST = 200


def title_of_request(request: Mapping[str, Any]) -> str:
    """For a draft that has not been computed yet."""
    if request["goal"] == Goal.UNLOCK:
        return f"Make room for {request['workload'] or 'what waits'}"[:LONGEST]
    if request["goal"] == Goal.MIG:
        return "Cut GPUs for what waits for MIG"
    if request["goal"] == Goal.LOWER_MEMORY:
        return f"Ask for less GPU memory for {request['workload']}"[:LONGEST]
    return "Free whole nodes"


def title_of_plan(plan: Plan, request: Mapping[str, Any], snapshot: Snapshot) -> str:
    """For example "Free 3 A100 nodes for llama-70b"."""
    if plan.goal == Goal.MIG and plan.reconfigurations:
        return _title_of_cuts(plan)[:LONGEST]
    if plan.lowerings:
        one = plan.lowerings[0]
        return f"Ask for {one.after_mib:,} MiB instead of {one.before_mib:,} for {one.owner}"[:LONGEST]
    if not plan.moves and not plan.preemptions:
        what = {Goal.MIG: "cut", Goal.LOWER_MEMORY: "lower"}.get(plan.goal, "move")
        return f"Nothing to {what}: {_lower_first(title_of_request(request))}"[:LONGEST]
    freed = len(plan.freed_nodes)
    nodes = f"{freed} {_kind_of(plan.freed_nodes, snapshot)}{'node' if freed == 1 else 'nodes'}"
    if plan.goal == Goal.UNLOCK:
        whom = _waiting_name(plan, request)
        return (f"Free {nodes} for {whom}" if freed else f"Make room for {whom}")[:LONGEST]
    return f"Free {nodes}"[:LONGEST]


def _title_of_cuts(plan: Plan) -> str:
    """For example "Cut GPU 5 of a100-07 for 7 waiting pods"."""
    cuts, pods = plan.reconfigurations, len(plan.hand_overs)
    nodes = {one.node for one in cuts}
    if len(cuts) == 1:
        what = f"GPU {cuts[0].index} of {cuts[0].node}"
    else:
        what = f"{len(cuts)} GPUs of {min(nodes) if len(nodes) == 1 else f'{len(nodes)} nodes'}"
    return f"Cut {what} for {pods} waiting {'pod' if pods == 1 else 'pods'}"


def _kind_of(names: tuple[str, ...], snapshot: Snapshot) -> str:
    """ "A100 " if all these nodes have one GPU model, else nothing."""
    models = {snapshot.nodes[name].model for name in names if name in snapshot.nodes}
    model = models.pop() if len(models) == 1 else ""
    return f"{family_of(model)} " if model else ""


def _waiting_name(plan: Plan, request: Mapping[str, Any]) -> str:
    if len(plan.unlocked) == 1:
        return plan.unlocked[0].partition("/")[2] or plan.unlocked[0]
    if plan.unlocked:
        return f"{len(plan.unlocked)} that wait"
    return str(request["workload"]).partition("/")[2] or "what waits"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
