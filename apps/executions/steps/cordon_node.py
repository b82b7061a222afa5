"""Step ``cordon_node``: no new pod lands on a node that is being freed.

One merge patch guarded by UID and resourceVersion sets `spec.unschedulable` and our annotation. A node
that somebody else cordoned is left as it is, then and afterwards. Once it is cordoned, the pods on it are
listed: one with GPUs that came in since the preflight stops the execution before anything is evicted.
Undone by the same kind of patch, and only where the annotation is this execution's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop
from apps.executions.models import Step
from apps.executions.objects import cordon_patch, uncordon_patch
from apps.executions.pictures import read_pods
from apps.executions.sightings import cordon, is_cordoned_by, label, read_fence, uid, unschedulable
from apps.kube.gateway import NODES, PODS
from apps.planner.resources import asks_gpu

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """node: None if it is gone. cordon: what our annotation is to say. fence: this runner's.
    newcomers: pods with GPUs that came in after the preflight; looked for once it is cordoned."""

    node: Json | None
    cordon: Json
    execution_id: int
    fence: int
    mark: str = ""
    newcomers: tuple[str, ...] = ()

    @property
    def is_ours(self) -> bool:
        return self.node is not None and is_cordoned_by(self.node, self.execution_id, self.mark)

    @property
    def has_lost_note(self) -> bool:
        """Cordoned by this execution, as our label tells, and its note is no longer ours."""
        is_labelled = label(self.node or {}, names.OWNED) == f"{self.execution_id}-{self.mark}"
        return self.node is not None and unschedulable(self.node) and is_labelled and not self.is_ours


def observe(context: Context, step: Step) -> Facts:
    node = context.gateway.get_object(NODES, step.params["node"])
    deadline = context.execution.deadline_at
    wanted = {
        "execution": context.execution.pk,
        "mark": context.mark,
        "reason": f"{step.params.get('why', 'freed')} by plan {context.execution.plan_id}",
        "deadline": deadline.isoformat() if deadline else "",
        "fence": context.lease.fence,
        "since": context.now.isoformat(timespec="seconds"),
    }
    is_watched = "known" in step.params and node is not None and unschedulable(node)
    newcomers = find_newcomers(context, step.params, fresh=True) if is_watched else ()
    return Facts(node, wanted, context.execution.pk, context.lease.fence, context.mark, newcomers)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    node = facts.node
    if node is None or uid(node) != step.params["node_uid"]:
        return stop(
            f"Node {step.params['node']} is gone or was made anew since the plan was approved.",
            "Cancel this execution and make a new plan.",
            cause="node-gone",
        )
    if facts.is_ours and _fence_of(node) > facts.fence:
        return stop(
            f"Node {step.params['node']} was cordoned by a newer life of this execution: "
            "this database is older than the cluster.",
            "An old backup seems to run. Write nothing; restore the newest database.",
            cause="database-old",
        )
    if unschedulable(node) and facts.newcomers:
        return stop(
            f"{' and '.join(facts.newcomers)} came onto node {step.params['node']} before it was cordoned: "
            f"it would not be {step.params.get('why', 'freed')} as approved.",
            "Cancel and make a new plan, or resume once that pod has left. Nothing was evicted.",
            cause="newcomer",
        )
    if facts.is_ours and unschedulable(node):
        return done("cordoned by this execution", cordoned=True)
    if facts.is_ours:
        return stop(
            f"Somebody uncordoned node {step.params['node']} although this execution had cordoned it.",
            "Talk to whoever did it, then resume or cancel.",
            cause="uncordoned",
        )
    if unschedulable(node):
        return done("cordoned by somebody else before: left as it is", cordoned=False)
    return act("cordon", f"keep new pods off {step.params['node']}", node=node, cordon=facts.cordon)


def _fence_of(node: Json) -> int:
    """0 where somebody wrote something else there."""
    return read_fence(cordon(node).get("fence"))


def find_newcomers(context: Context, params: Json, *, fresh: bool = False) -> tuple[str, ...]:
    """Pods with GPUs on the node, by name, that were not there at the preflight. fresh: by a consistent LIST,
    as it has to be right after the cordon."""
    on_node = f"spec.nodeName={params['node']}"
    raw = context.gateway.list_objects(PODS, field_selector=on_node, fresh=fresh)
    there = [pod for pod in read_pods({PODS: raw}).values() if pod.is_holding and asks_gpu(pod)]
    return tuple(sorted(pod.key for pod in there if pod.uid not in params["known"]))


@dataclass(frozen=True)
class Change:
    """Why a node whose cordon was set is no longer kept. advice: what to do, before "this pod was not
    evicted"."""

    reason: str
    cause: str
    advice: str

    def stop(self) -> Decision:
        return stop(self.reason, f"{self.advice}; this pod was not evicted.", cause=self.cause)


def what_changed(context: Context, step: Step) -> Change | None:
    """None while the node of a cordon that was set is still kept. Reads the cluster."""
    where = f"Node {step.params['node']}"
    node = context.gateway.get_object(NODES, step.params["node"])
    if node is None or uid(node) != step.params["node_uid"]:
        gone = f"{where} is gone or was made anew since the plan was approved."
        return Change(gone, "node-gone", "Cancel and ask for a new plan")
    was_ours = bool(step.observed.get("seen", {}).get("cordoned"))
    is_ours = is_cordoned_by(node, context.execution.pk, context.mark)
    if not unschedulable(node):
        opened = f"{where}, which is being freed, was uncordoned by somebody."
        return Change(opened, "uncordoned", "Cordon it again and resume once nobody new is on it, or cancel")
    if was_ours and not is_ours:
        changed = f"{where} is cordoned, but no longer with our note: somebody changed it."
        return Change(changed, "uncordoned", "Talk to whoever did it, then cancel and ask for a new plan")
    newcomers = find_newcomers(context, step.params)
    if not newcomers:
        return None
    came = f"{' and '.join(newcomers)} came onto {where}, which is being freed."
    return Change(came, "newcomer", "Cancel and ask for a new plan, or resume once that pod has left")


def decide_undo(step: Step, facts: Facts) -> Decision:
    if facts.node is None or uid(facts.node) != step.params["node_uid"]:
        return moot("the node is gone")
    if not facts.is_ours and facts.has_lost_note:
        left = f"the cordon of node {step.params['node']}, which no longer carries our note"
        return done("somebody changed our note on it: its cordon stays", left=left)
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
