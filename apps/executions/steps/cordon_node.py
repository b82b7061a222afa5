"""Step ``cordon_node``: no new pod lands on a node that is being freed.

One merge patch guarded by UID and resourceVersion sets `spec.unschedulable` and our annotation. A node
that somebody else cordoned is left as it is, then and afterwards.
Undone by the same kind of patch, and only where the annotation is this execution's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop
from apps.executions.models import Step
from apps.executions.objects import cordon_patch, uncordon_patch
from apps.executions.sightings import cordon, uid, unschedulable
from apps.kube.gateway import NODES

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """node: None if it is gone. cordon: what our annotation is to say. fence: this runner's."""

    node: Json | None
    cordon: Json
    execution_id: int
    fence: int

    @property
    def is_ours(self) -> bool:
        return self.node is not None and cordon(self.node).get("execution") == self.execution_id


def observe(context: Context, step: Step) -> Facts:
    node = context.gateway.get_object(NODES, step.params["node"])
    deadline = context.execution.deadline_at
    wanted = {
        "execution": context.execution.pk,
        "reason": f"freed by plan {context.execution.plan_id}",
        "deadline": deadline.isoformat() if deadline else "",
        "fence": context.lease.fence,
    }
    return Facts(node, wanted, context.execution.pk, context.lease.fence)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    node = facts.node
    if node is None or uid(node) != step.params["node_uid"]:
        return stop(
            f"Node {step.params['node']} is gone or was made anew since the plan was approved.",
            "Cancel this execution and make a new plan.",
        )
    if facts.is_ours and int(cordon(node).get("fence") or 0) > facts.fence:
        return stop(
            f"Node {step.params['node']} was cordoned by a newer life of this execution: "
            "this database is older than the cluster.",
            "An old backup seems to run. Write nothing; restore the newest database.",
        )
    if facts.is_ours and unschedulable(node):
        return done("cordoned by this execution", cordoned=True)
    if facts.is_ours:
        return stop(
            f"Somebody uncordoned node {step.params['node']} although this execution had cordoned it.",
            "Talk to whoever did it, then resume or cancel.",
        )
    if unschedulable(node):
        return done("cordoned by somebody else before: left as it is", cordoned=False)
    return act("cordon", f"keep new pods off {step.params['node']}", node=node, cordon=facts.cordon)


def decide_undo(step: Step, facts: Facts) -> Decision:
    if facts.node is None or uid(facts.node) != step.params["node_uid"]:
        return moot("the node is gone")
    if not facts.is_ours:
        return done("no cordon of this execution is left on it")
    return act("uncordon", f"take our cordon off {step.params['node']}", node=facts.node)


def apply(context: Context, step: Step, decision: Decision) -> None:
    node = decision.arguments["node"]
    if decision.effect == "cordon":
        patch = cordon_patch(node, decision.arguments["cordon"])
    else:
        patch = uncordon_patch(node)
    context.gateway.patch_object(NODES, step.params["node"], patch)
