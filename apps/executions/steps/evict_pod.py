"""Step ``evict_pod``: the approved pod leaves its node; its owner makes a new one.

Sent only while the hold is confirmed, the target has the room, the gate is in force and the pod is the one
that was approved. Its UID goes along as a precondition. It cannot be undone.
A hold found lost is repaired first, by the same effects that made it; a pod of the owner that the gate caught
before is freed first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apps.executions import names
from apps.executions.admissions import open_again
from apps.executions.approved_pods import what_changed
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, blocked, done, moot, stop, wait
from apps.executions.holds import (
    HoldFacts,
    look_at_hold,
    repair_hold,
    send_hold_effect,
    unique_hostname,
)
from apps.executions.models import Steering, Step
from apps.executions.objects import keeps_out, ungate
from apps.executions.room import (
    decide_without_any_target,
    decide_without_target,
    look_at_all_rooms,
    look_at_room,
    promised_by_taint,
)
from apps.executions.sharing import find_gated, find_stolen, steered_since
from apps.executions.sightings import is_finished, is_leaving, name, owner_uid, uid
from apps.executions.states import StepKind
from apps.executions.steering_forms import Form, form_of
from apps.executions.steps import cordon_node, steer
from apps.kube.gateway import NODES, PODS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """siblings: UIDs of the owner's pods now, so that a replacement can be told later without any clock.
    no_room: why the target cannot take it beside all that it holds and is promised to; before the first
    eviction of the plan why any target of it cannot; "" if they can.
    source_changed: why the node that is being freed is no longer kept, None if it is.
    no_gate: what is wrong with what steers the replacement, "" if nothing.
    steered_for: seconds since the gate went into force. strangers: the owner's new pods that the gate caught
    before there was anything to replace. taken: a steering whose one admission such a pod took, None.
    is_kept: the taint that keeps the target stands, where it is kept so; hold is None then.
    no_target: what to do where the target is gone (before the first eviction any target of the plan), None
    while it is there."""

    pod: Json | None
    hold: HoldFacts | None = None
    siblings: list[str] = field(default_factory=list)
    no_room: str = ""
    steered_for: float = 0.0
    settle_seconds: float = 0.0
    no_gate: str = ""
    source_changed: cordon_node.Change | None = None
    strangers: tuple[Json, ...] = ()
    taken: Steering | None = None
    is_kept: bool = True
    no_target: Decision | None = None


def observe(context: Context, step: Step) -> Facts:
    gateway, params, form = context.gateway, step.params, form_of(step.params)
    pod = gateway.get_object(PODS, params["name"], namespace=params["namespace"])
    if pod is None or uid(pod) != params["uid"] or is_leaving(pod) or is_finished(pod):
        return Facts(pod)
    pods = gateway.list_owned_pods(params["namespace"], params["workload_uid"])
    siblings = [uid(other) for other in pods if owner_uid(other) == params["workload_uid"]]
    since = steered_since(context, step)
    kept = params.get("taint", "")
    target = gateway.get_object(NODES, params["target"]) if kept else None
    return Facts(
        pod,
        None if kept else look_at_hold(context, params),
        sorted(siblings),
        _look_for_room(context, step),
        (context.now - since).total_seconds() if since else 0.0,
        0.0 if form == Form.BEST_EFFORT else context.place.settle_seconds,
        steer.why_not_in_force(context, params),
        _look_at_source(context, params),
        find_gated(context, step, pods),
        find_stolen(context, step),
        not kept or (target is not None and keeps_out(target, kept)),
        decide_without_target(context, params) or decide_without_any_target(context),
    )


def _look_for_room(context: Context, step: Step) -> str:
    params = step.params
    if params.get("pins_to") and unique_hostname(context, params) != params["pins_to"]:
        return f"target {params['target']} has no hostname label of its own any more, as it had at the start"
    away = promised_by_taint(context, step) if params.get("taint") else ()
    return look_at_room(context, params, away=away) or look_at_all_rooms(context)


def _look_at_source(context: Context, params: Json) -> cordon_node.Change | None:
    cordons = [s for s in context.steps if s.kind == StepKind.CORDON_NODE]
    mine = next((s for s in cordons if s.params["node_uid"] == params["source_uid"]), None)
    return cordon_node.what_changed(context, mine) if mine is not None else None


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    gone = _decide_gone(step, facts.pod)
    if gone is not None:
        return gone
    if facts.strangers:
        stranger = facts.strangers[0]
        return act("free_pod", f"{name(stranger)} came before the eviction: freed, unpinned", pod=stranger)
    if facts.taken is not None:
        return act("open_again", "the pod that was gated is no replacement", steering=facts.taken)
    against = _decide_against(step, facts)
    if against is not None:
        return against
    repair = repair_hold(facts.hold, step.params) if facts.hold is not None else None
    if repair is not None:
        return repair
    if facts.steered_for < facts.settle_seconds:
        return wait("waiting for the gate to be in force everywhere")
    return act(
        "evict", f"evict {step.params['pod']} from {step.params['source']}", seen={"siblings": facts.siblings}
    )


def _decide_against(step: Step, facts: Facts) -> Decision | None:
    """What has changed since the approval, or is not there, so that nothing is evicted."""
    changed = what_changed(step.params, facts.pod or {})
    if changed:
        return stop(
            changed,
            "Cancel this execution and make a new plan; this pod was not evicted.",
            cause="pod-changed",
        )
    if facts.source_changed is not None:
        return facts.source_changed.stop()
    if facts.no_gate:
        return stop(
            facts.no_gate,
            "Find out who did that. Cancel and ask for a new plan; this pod was not evicted.",
            cause="steering-gone",
        )
    if facts.no_target is not None:
        return facts.no_target
    if not facts.is_kept:
        target, taint = step.params["target"], f"{names.HELD}={step.params['taint']}:NoSchedule"
        return stop(
            f"Somebody took our taint off target {target}, or changed it.",
            f"See who is on it now. Cancel; or kubectl taint node {target} {taint} --overwrite, and resume. "
            "This pod was not evicted.",
            cause="taint-removed",
        )
    if facts.no_room:
        return blocked(
            f"Not evicted: {facts.no_room}.",
            "Make room on the target or cancel; this pod was not evicted.",
            cause="no-room",
            retry_seconds=2,
        )
    return None


def _decide_gone(step: Step, pod: Json | None) -> Decision | None:
    is_sent = "evict" in step.observed.get("sent", [])
    if pod is None or uid(pod) != step.params["uid"]:
        if is_sent:
            return done("the pod has left", evicted=True)
        return moot("the pod left by itself before it was evicted", left_by_itself=True)
    if is_leaving(pod):
        if is_sent:
            return done("the pod is on its way out", evicted=True)
        return moot("somebody else deletes the pod", left_by_itself=True)
    if is_finished(pod):
        return moot("the pod finished by itself: nothing to move", finished=True)
    return None


def decide_undo(step: Step, facts: Facts) -> Decision:
    return done("an eviction cannot be undone")


def apply(context: Context, step: Step, decision: Decision) -> None:
    if decision.effect == "free_pod":
        pod, space = decision.arguments["pod"], step.params["namespace"]
        context.gateway.patch_object(PODS, name(pod), ungate(pod), namespace=space, strategic=True)
    elif decision.effect == "open_again":
        open_again(context.lease, decision.arguments["steering"])
    elif not send_hold_effect(context, step, decision):
        context.gateway.evict_pod(step.params["namespace"], step.params["name"], uid=step.params["uid"])
