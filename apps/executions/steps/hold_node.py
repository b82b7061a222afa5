"""Step ``hold_node``: a target is kept for the moves that go there by a taint of ours.

Instead of paper holds, where `node_holds` says so: it keeps out whoever does not tolerate it, of any rank.
The whole list of taints is written, guarded by UID and resourceVersion. Each replacement gets the toleration
in the patch that pins it. A taint of that name that is not ours is left as it is.
Undone, and ended by `release_node`, by taking the taint off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop
from apps.executions.models import Step
from apps.executions.objects import is_held, keeps_out, taint_patch, untaint_patch
from apps.executions.sightings import taints, uid
from apps.kube.gateway import NODES

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    node: Json | None


def observe(context: Context, step: Step) -> Facts:
    return Facts(context.gateway.get_object(NODES, step.params["node"]))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    node, params = facts.node, step.params
    if node is None or uid(node) != params["node_uid"]:
        return stop(
            f"Node {params['node']} is gone or was made anew since the plan was approved.",
            "Cancel this execution and make a new plan.",
            cause="node-gone",
        )
    if keeps_out(node, params["taint"]):
        return done(f"{params['node']} is kept by our taint", kept=True)
    if is_tainted(node, params["taint"]):
        return stop(
            f"Somebody changed the effect of our taint on node {params['node']}: it keeps nobody out.",
            f"kubectl taint node {params['node']} {names.HELD}={params['taint']}:NoSchedule, then resume.",
            cause="taint-removed",
        )
    if any(taint.get("key") == names.HELD for taint in taints(node)):
        return stop(
            f"Node {params['node']} carries the taint {names.HELD} of somebody else.",
            "Find out whose it is (held_now tells), take it off if it is stray, then resume.",
            cause="hold-taken",
        )
    return act("taint_target", f"keep {params['node']}: {params['reason']}", node=node)


def is_tainted(node: Json, value: str) -> bool:
    return any(is_held(taint, value) for taint in taints(node))


def decide_undo(step: Step, facts: Facts) -> Decision:
    node, params = facts.node, step.params
    if node is None or uid(node) != params["node_uid"]:
        return moot("the node is gone")
    if is_tainted(node, params["taint"]):
        return act("untaint_target", f"open {params['node']} to everybody again", node=node)
    return done("no taint of this execution is left on it")


def apply(context: Context, step: Step, decision: Decision) -> None:
    node, value = decision.arguments["node"], step.params["taint"]
    if decision.effect == "taint_target":
        patch = taint_patch(node, value, context.holder)
    else:
        patch = untaint_patch(node, value)
    context.gateway.patch_object(NODES, step.params["node"], patch)
