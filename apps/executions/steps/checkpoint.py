"""Step ``checkpoint``: a pod that can save its work is asked to, before it is evicted.

Only pods that opt in by the annotation `defrag.gpu.internal/checkpoint: "true"`; the workload answers by
`checkpoint-done`. Without an answer in time nothing is evicted: a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait
from apps.executions.models import Step
from apps.executions.objects import asks_for_checkpoint, checkpoint_request
from apps.executions.sightings import annotation, is_finished, is_leaving, moment, uid
from apps.kube.gateway import PODS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """asked_at: what a request would say now (RFC 3339, the database's clock)."""

    pod: Json | None
    asked_at: str


def observe(context: Context, step: Step) -> Facts:
    pod = context.gateway.get_object(PODS, step.params["name"], namespace=step.params["namespace"])
    return Facts(pod, context.now.strftime("%Y-%m-%dT%H:%M:%SZ"))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    pod = facts.pod
    if pod is None or uid(pod) != step.params["uid"] or is_leaving(pod) or is_finished(pod):
        return moot("the pod is gone or on its way: nothing to save")
    if not asks_for_checkpoint(pod):
        return moot("not needed: the pod does not ask for checkpoints")
    seen = step.observed.get("seen", {})
    wanted = moment(seen.get("asked_at", ""))
    asked = moment(annotation(pod, names.CHECKPOINT_REQUESTED))
    if wanted is None or asked is None or asked < wanted:
        at = seen.get("asked_at") or facts.asked_at
        return act("ask", f"ask {step.params['pod']} to save its work", seen={"asked_at": at}, pod=pod, at=at)
    answered = moment(annotation(pod, names.CHECKPOINT_DONE))
    if answered is not None and answered >= asked:
        return done("its work is saved", checkpointed_at=answered.isoformat())
    if late:
        return stop(
            f"Pod {step.params['pod']} was asked to save its work at {asked:%H:%M:%S} and has not answered.",
            "Look at the workload; resume to wait again, or cancel. Nothing was evicted for it.",
            cause="checkpoint-silent",
        )
    return wait(f"asked to save its work at {asked:%H:%M:%S} UTC")


def decide_undo(step: Step, facts: Facts) -> Decision:
    return done("a request to save work leaves nothing behind")


def apply(context: Context, step: Step, decision: Decision) -> None:
    patch = checkpoint_request(decision.arguments["pod"], decision.arguments["at"])
    context.gateway.patch_object(PODS, step.params["name"], patch, namespace=step.params["namespace"])
