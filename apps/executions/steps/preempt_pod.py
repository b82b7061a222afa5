"""Step ``preempt_pod``: an approved pod gives way to a more important one, and nothing is kept for it.

Sent only while our cordon keeps its node for whom it makes room, and the pod is the one that was approved. By
the Eviction API, so under its disruption budgets, with its UID as a precondition and its own grace period.
Verified when the pod is gone: what its owner makes instead waits in the queue. It cannot be undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions.approved_pods import what_changed
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait_long
from apps.executions.models import Step
from apps.executions.sightings import is_finished, is_leaving, uid
from apps.executions.states import StepKind
from apps.executions.steps import cordon_node
from apps.kube.gateway import PODS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """node_changed: why the node is no longer kept for whom the pod makes room, None if it is."""

    pod: Json | None
    node_changed: cordon_node.Change | None = None


def observe(context: Context, step: Step) -> Facts:
    params = step.params
    pod = context.gateway.get_object(PODS, params["name"], namespace=params["namespace"])
    cordons = [s for s in context.steps if s.kind == StepKind.CORDON_NODE]
    mine = next((s for s in cordons if s.params["node_uid"] == params["source_uid"]), None)
    if mine is None:
        lost = f"Node {params['source']} is not kept by this execution."
        return Facts(pod, cordon_node.Change(lost, "uncordoned", "Cancel and ask for a new plan"))
    return Facts(pod, cordon_node.what_changed(context, mine))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    pod, params = facts.pod, step.params
    is_sent = "evict" in step.observed.get("sent", [])
    if pod is None or uid(pod) != params["uid"]:
        return done("the pod is gone", evicted=True) if is_sent else moot("the pod left by itself")
    if is_finished(pod):
        # One that was evicted is told as finished for a moment before it is gone.
        return (
            done("the pod has ended", evicted=True)
            if is_sent
            else moot("the pod finished by itself: its room is free")
        )
    if is_leaving(pod):
        return wait_long("the pod ends, in its own grace period", evicted=is_sent)
    if facts.node_changed is not None:
        return facts.node_changed.stop()
    changed = what_changed(params, pod, most_priority=params["priority"])
    if changed:
        return stop(
            changed,
            "Cancel this execution and make a new plan; this pod was not evicted.",
            cause="pod-changed",
        )
    return act("evict", f"evict {params['pod']} from {params['source']}: it gives way to {params['for']}")


def decide_undo(step: Step, facts: Facts) -> Decision:
    return done("an eviction cannot be undone")


def apply(context: Context, step: Step, decision: Decision) -> None:
    context.gateway.evict_pod(step.params["namespace"], step.params["name"], uid=step.params["uid"])
