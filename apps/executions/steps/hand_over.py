"""Step ``hand_over``: a freed node reaches the gang that it was freed for, and nobody else.

While our cordon stands: a taint of ours on the node, the matching toleration on each waiting pod of the gang.
No pod is let in before every node of the hand-over is kept: a gang gets all of them or none.
When both are seen the node is uncordoned; when the gang's pods are bound, or at the deadline, the taint goes.
Each of these is one effect. Undone by taking the taint away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait
from apps.executions.models import Step
from apps.executions.objects import (
    is_held,
    keeps_out,
    taint_patch,
    tolerates_held,
    toleration_patch,
    uncordon_patch,
    untaint_patch,
)
from apps.executions.pictures import read_pods
from apps.executions.sightings import is_cordoned_by, name, namespace, taints, uid, unschedulable
from apps.executions.states import FINISHED, StepKind
from apps.kube.errors import NotFound
from apps.kube.gateway import JOBS, NODES, POD_GROUPS, PODS

Json = dict[str, Any]
KEPT = {"kept": True}
"""Seen: our taint stands on the node."""


@dataclass(frozen=True)
class Facts:
    """waiting: the gang's pods that have no node yet; bound: how many have one.
    was_cordoned: whether the cordon that was standing is ours (else somebody had one before).
    are_others_kept: whether our taint has been seen on every other node that is handed over."""

    node: Json | None
    execution_id: int
    was_cordoned: bool = True
    waiting: list[Json] = field(default_factory=list)
    bound: int = 0
    mark: str = ""
    are_others_kept: bool = True

    def is_behind_cordon(self) -> bool:
        return self.node is not None and is_cordoned_by(self.node, self.execution_id, self.mark)


def observe(context: Context, step: Step) -> Facts:
    node = context.gateway.get_object(NODES, step.params["node"])
    cordons = [s for s in context.steps if s.kind == StepKind.CORDON_NODE]
    mine = [s for s in cordons if s.params["node_uid"] == step.params["node_uid"]]
    was_cordoned = any(s.observed.get("seen", {}).get("cordoned") for s in mine)
    waiting, bound = _look_at_gang(context, step.params)
    others = [s for s in context.steps if s.kind == StepKind.HAND_OVER and s.pk != step.pk]
    kept = all(is_kept(other) for other in others)
    return Facts(node, context.execution.pk, was_cordoned, waiting, bound, context.mark, kept)


def is_kept(step: Step) -> bool:
    return step.state in FINISHED or bool(step.observed.get("seen", {}).get("kept"))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    node, params = facts.node, step.params
    if node is None or uid(node) != params["node_uid"]:
        return stop(
            f"Node {params['node']} is gone.", "Cancel this execution and make a new plan.", cause="node-gone"
        )
    if params["is_cordoned"] and not facts.was_cordoned:
        return moot("the node stays cordoned by somebody else: it is not handed over")
    if late:
        return _decide_late(step, facts, node)
    if facts.is_behind_cordon():
        return _decide_behind_cordon(step, facts, node)
    return _decide_open(step, facts, node)


def _decide_behind_cordon(step: Step, facts: Facts, node: Json) -> Decision:
    params = step.params
    if not unschedulable(node):
        return stop(
            f"Somebody uncordoned node {params['node']} before it was handed over.",
            "See who is on it now; resume if that is right, or cancel.",
            cause="uncordoned",
        )
    if not facts.waiting and _is_tainted(node, params):
        return act("untaint", "nobody of the gang waits any more", node=node)
    if facts.waiting and not keeps_out(node, params["taint"]):
        return act("taint", f"keep {params['node']} for {params['display']}", node=node)
    opened = act("uncordon", f"open {params['node']} to its gang", seen=KEPT, node=node)
    return _let_in(step, facts) or opened


def _decide_open(step: Step, facts: Facts, node: Json) -> Decision:
    params, sent, seen = step.params, step.observed.get("sent", []), step.observed.get("seen", {})
    if params["is_cordoned"] and "uncordon" not in sent:
        return stop(
            f"Somebody took our cordon off node {params['node']} before it was handed over.",
            "See who is on it now; resume if that is right, or cancel.",
            cause="uncordoned",
        )
    is_placed = not facts.waiting or facts.bound >= params["wanted"]
    if is_placed and _is_tainted(node, params):
        return act("untaint", f"{params['node']} is handed over to {params['display']}", node=node)
    if keeps_out(node, params["taint"]):
        return _let_in(step, facts) or wait(f"waiting for {params['display']} to be bound", **KEPT)
    if is_placed:
        return done(f"{params['node']} is handed over to {params['display']}", bound=facts.bound)
    if "untaint" in sent:
        # Given up at the deadline, and a person looks again. Others may have come: it is not shut anew.
        return wait(f"{params['node']} is open to anybody; waiting to see {params['display']} bound")
    if not seen.get("kept"):
        return act("taint", f"keep {params['node']} for {params['display']}", node=node)
    return stop(
        f"Somebody took our taint off node {params['node']}, or changed it, before the gang had it.",
        "See who is on it now; resume to look again, or cancel.",
        cause="taint-removed",
    )


def _decide_late(step: Step, facts: Facts, node: Json) -> Decision:
    params = step.params
    if _is_tainted(node, params):
        return act("untaint", "the deadline of the hand-over has passed", node=node)
    if facts.is_behind_cordon():
        return act("uncordon", "the deadline of the hand-over has passed", node=node)
    if not facts.waiting or facts.bound >= params["wanted"]:
        return done(f"{params['node']} is handed over to {params['display']}", bound=facts.bound)
    return stop(
        f"{params['display']} did not start on {params['node']} before the deadline: our taint and cordon "
        "were taken off, and anybody may use the node now.",
        "See why the gang still waits (its events); make a new plan if the node was taken.",
        cause="gang-not-started",
    )


def _let_in(step: Step, facts: Facts) -> Decision | None:
    """The next thing to do before the gang may come onto this node, which is tainted."""
    if not facts.are_others_kept:
        return wait(f"{step.params['node']} is kept; waiting until the other nodes are as well", **KEPT)
    value = step.params["taint"]
    bare = next((pod for pod in facts.waiting if not tolerates_held(pod, value)), None)
    if bare is None:
        return None
    return act("tolerate", f"let {name(bare)} onto {step.params['node']}", seen=KEPT, pod=bare)


def decide_undo(step: Step, facts: Facts) -> Decision:
    if facts.node is not None and _is_tainted(facts.node, step.params):
        return act("untaint", f"take our taint off {step.params['node']}", node=facts.node)
    return done("no taint of this execution is left on it")


def apply(context: Context, step: Step, decision: Decision) -> None:
    value = step.params["taint"]
    if decision.effect == "tolerate":
        pod = decision.arguments["pod"]
        context.gateway.patch_object(PODS, name(pod), toleration_patch(pod, value), namespace=namespace(pod))
        return
    node = decision.arguments["node"]
    patches = {
        "taint": lambda: taint_patch(node, value, context.holder),
        "untaint": lambda: untaint_patch(node, value),
        "uncordon": lambda: uncordon_patch(node),
    }
    context.gateway.patch_object(NODES, step.params["node"], patches[decision.effect]())


def _is_tainted(node: Json, params: Json) -> bool:
    return any(is_held(taint, params["taint"]) for taint in taints(node))


def _look_at_gang(context: Context, params: Json) -> tuple[list[Json], int]:
    """Pods that wait, and how many of those that we let in are bound; others ran before."""
    waiting: list[Json] = []
    bound = 0
    for space in params["namespaces"]:
        raw = context.gateway.list_objects(PODS, namespace=space)
        jobs = context.gateway.list_objects(JOBS, namespace=space)
        try:
            groups = context.gateway.list_objects(POD_GROUPS, namespace=space)
        except NotFound:
            groups = []
        pods = read_pods({PODS: raw, JOBS: jobs, POD_GROUPS: groups})
        for thing in raw:
            pod = pods.get(uid(thing))
            if pod is None or not ({pod.gang, pod.key} & set(params["keys"])):
                continue
            if pod.is_pending:
                waiting.append(thing)
            elif pod.node_name and tolerates_held(thing, params["taint"]):
                bound += 1
    return waiting, bound
