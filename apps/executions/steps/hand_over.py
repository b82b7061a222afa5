"""Step ``hand_over``: a freed node reaches the gang that it was freed for, and nobody else.

While our cordon stands: a taint of ours on the node, the matching toleration on each waiting pod of the gang.
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
    taint_patch,
    tolerates_held,
    toleration_patch,
    uncordon_patch,
    untaint_patch,
)
from apps.executions.pictures import read_pods
from apps.executions.sightings import cordon, name, namespace, taints, uid, unschedulable
from apps.executions.states import StepKind
from apps.kube.errors import NotFound
from apps.kube.gateway import JOBS, NODES, POD_GROUPS, PODS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """waiting: the gang's pods that have no node yet; bound: how many have one.
    was_cordoned: whether the cordon that was standing is ours (else somebody had one before)."""

    node: Json | None
    execution_id: int
    was_cordoned: bool = True
    waiting: list[Json] = field(default_factory=list)
    bound: int = 0


def observe(context: Context, step: Step) -> Facts:
    node = context.gateway.get_object(NODES, step.params["node"])
    cordons = [s for s in context.steps if s.kind == StepKind.CORDON_NODE]
    mine = [s for s in cordons if s.params["node_uid"] == step.params["node_uid"]]
    was_cordoned = any(s.observed.get("seen", {}).get("cordoned") for s in mine)
    waiting, bound = _look_at_gang(context, step.params)
    return Facts(node, context.execution.pk, was_cordoned, waiting, bound)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    node, params = facts.node, step.params
    if node is None or uid(node) != params["node_uid"]:
        return stop(f"Node {params['node']} is gone.", "Cancel this execution and make a new plan.")
    if params["is_cordoned"] and not facts.was_cordoned:
        return moot("the node stays cordoned by somebody else: it is not handed over")
    if late:
        return _decide_late(step, facts, node)
    if cordon(node).get("execution") == facts.execution_id:
        return _decide_behind_cordon(step, facts, node)
    return _decide_open(step, facts, node)


def _decide_behind_cordon(step: Step, facts: Facts, node: Json) -> Decision:
    params = step.params
    is_tainted = _is_tainted(node, params)
    if not unschedulable(node):
        return stop(
            f"Somebody uncordoned node {params['node']} before it was handed over.",
            "See who is on it now; resume if that is right, or cancel.",
        )
    if not facts.waiting and is_tainted:
        return act("untaint", "nobody of the gang waits any more", node=node)
    if facts.waiting and not is_tainted:
        return act("taint", f"keep {params['node']} for {params['display']}", node=node)
    return _add_toleration(step, facts) or act("uncordon", f"open {params['node']} to its gang", node=node)


def _decide_open(step: Step, facts: Facts, node: Json) -> Decision:
    params, sent = step.params, step.observed.get("sent", [])
    if params["is_cordoned"] and "uncordon" not in sent:
        return stop(
            f"Somebody took our cordon off node {params['node']} before it was handed over.",
            "See who is on it now; resume if that is right, or cancel.",
        )
    is_placed = not facts.waiting or facts.bound >= params["wanted"]
    if _is_tainted(node, params):
        if is_placed:
            return act("untaint", f"{params['display']} has its nodes", node=node)
        return _add_toleration(step, facts) or wait(f"waiting for {params['display']} to be bound")
    if is_placed:
        return done(f"{params['display']} has its nodes", bound=facts.bound)
    if "taint" not in sent:
        return act("taint", f"keep {params['node']} for {params['display']}", node=node)
    return stop(
        f"Somebody took our taint off node {params['node']} before the gang had it.",
        "See who is on it now; resume to look again, or cancel.",
    )


def _decide_late(step: Step, facts: Facts, node: Json) -> Decision:
    params = step.params
    if _is_tainted(node, params):
        return act("untaint", "the deadline of the hand-over has passed", node=node)
    if cordon(node).get("execution") == facts.execution_id:
        return act("uncordon", "the deadline of the hand-over has passed", node=node)
    if not facts.waiting or facts.bound >= params["wanted"]:
        return done(f"{params['display']} has its nodes", bound=facts.bound)
    return stop(
        f"{params['display']} did not start on {params['node']} before the deadline: our taint and cordon "
        "were taken off, and anybody may use the node now.",
        "See why the gang still waits (its events); make a new plan if the node was taken.",
    )


def _add_toleration(step: Step, facts: Facts) -> Decision | None:
    value = step.params["taint"]
    bare = next((pod for pod in facts.waiting if not tolerates_held(pod, value)), None)
    if bare is None:
        return None
    return act("tolerate", f"let {name(bare)} onto {step.params['node']}", pod=bare)


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
        "taint": lambda: taint_patch(node, value),
        "untaint": lambda: untaint_patch(node, value),
        "uncordon": lambda: uncordon_patch(node),
    }
    context.gateway.patch_object(NODES, step.params["node"], patches[decision.effect]())


def _is_tainted(node: Json, params: Json) -> bool:
    return any(is_held(taint, params["taint"]) for taint in taints(node))


def _look_at_gang(context: Context, params: Json) -> tuple[list[Json], int]:
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
            elif pod.node_name:
                bound += 1
    return waiting, bound
