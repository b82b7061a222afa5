"""Step ``await_replacement``: the owner's new pod lands on the target and becomes Ready there.

Effects, each where a look shows it missing: strangers that our gate caught are freed; the target is nominated
for the replacement; the hold goes; one patch pins the replacement to the target and drops our gate.
Where a taint keeps the target that patch adds the toleration, and there is no nomination and no hold.
A replacement that came ungated is taken if it lands on the target. Elsewhere it does not count, but where it
stands Ready and takes nothing that the plan keeps, its step is left behind; otherwise a person is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.executions.admissions import open_again
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait, wait_long
from apps.executions.holds import give_over, own_hold, send_hold_effect, unique_hostname, why_still_kept
from apps.executions.kept_rooms import open_room_of
from apps.executions.models import KeptRoom, Steering, Step
from apps.executions.objects import nomination, pin_and_ungate, tolerates_held, toleration_patch, ungate
from apps.executions.replacements import Found, find_replacement, is_pinned
from apps.executions.room import look_at_room_of
from apps.executions.sharing import find_lost, marks_of, spared_for_others, taken_by_others
from apps.executions.sightings import (
    devices,
    is_finished,
    is_gated,
    is_leaving,
    is_ready,
    moment,
    name,
    node_of,
    nominated,
    uid,
    version,
)
from apps.executions.states import StepKind
from apps.executions.steering_forms import Form, form_of
from apps.kube.gateway import PODS

Json = dict[str, Any]
ENDING = "the old pod still ends, in its own grace period"
KEEPING = (StepKind.CORDON_NODE, StepKind.RECONFIGURE_MIG, StepKind.HAND_OVER)
REOPEN_SECONDS = 5.0
"""An admitted pod that has not appeared after so long never will."""


@dataclass(frozen=True)
class Facts:
    """steering: one whose admission was taken by a pod that is not there, None. hostname: the label to pin
    to, "" if it is missing or not the target's alone. no_room: why the target could not take it, "" if it
    can. has_finished, left_by_itself: how the old pod went, if not by us. kept_by: finalizers for which it is
    still there, so that an owner who wants its name makes no other. kept: nodes on which the plan wants no
    replacement."""

    found: Found
    now: datetime
    hold: Json | None = None
    steering: Steering | None = None
    is_old_gone: bool = True
    hostname: str = ""
    no_room: str = ""
    has_finished: bool = False
    left_by_itself: bool = False
    kept_by: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()
    room: KeptRoom | None = None


def observe(context: Context, step: Step) -> Facts:
    gateway, params = context.gateway, step.params
    pods = gateway.list_owned_pods(params["namespace"], params["workload_uid"])
    evicted = context.seen_of(step.move, StepKind.EVICT_POD)
    found = find_replacement(
        pods,
        marks=marks_of(context, step),
        owner=params["workload_uid"],
        siblings=evicted.get("siblings"),
        taken=taken_by_others(context, step),
        known=step.observed.get("seen", {}).get("replacement", ""),
        spared=spared_for_others(context, step),
    )
    waits = found.pod is not None and not node_of(found.pod)
    return Facts(
        found,
        context.now,
        own_hold(context, params),
        find_lost(context, step, pods) if found.pod is None else None,
        all(uid(pod) != params["uid"] or is_finished(pod) for pod in pods),
        unique_hostname(context, params) if waits else "",
        look_at_room_of(found.pod, context, params)
        if waits and found.pod and not is_gated(found.pod)
        else "",
        bool(evicted.get("finished")),
        bool(evicted.get("left_by_itself")),
        tuple(
            finalizer
            for pod in pods
            if uid(pod) == params["uid"] and is_leaving(pod)
            for finalizer in pod["metadata"].get("finalizers") or ()
        ),
        frozenset(s.params["node"] for s in context.steps if s.kind in KEEPING) | {params["source"]},
        open_room_of(context, params),
    )


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    pod = facts.found.pod
    if facts.found.strangers:
        stranger = facts.found.strangers[0]
        return act("free_pod", f"{name(stranger)} is no replacement: freed, unpinned", pod=stranger)
    if pod is None:
        return _decide_without(step, facts, late)
    if not node_of(pod):
        return _decide_unbound(step, facts, pod, late)
    return _decide_bound(step, facts, pod, late)


def _decide_without(step: Step, facts: Facts, late: bool) -> Decision:
    seen = step.observed.get("seen", {})
    if facts.has_finished or (facts.left_by_itself and late):
        return moot("no replacement is needed")
    if facts.steering is not None and facts.steering.admitted_uid:
        since = moment(seen.get("missing_since", ""))
        if since is None:
            return wait("a pod was gated and is not there yet", missing_since=facts.now.isoformat())
        if (facts.now - since).total_seconds() > REOPEN_SECONDS:
            return act(
                "open_again",
                "the gated pod never came to be: the next one is gated",
                seen={"missing_since": ""},
                steering=facts.steering,
            )
    if not facts.is_old_gone:
        return wait_long(f"waiting for the owner to make a replacement; {ENDING}")
    kept = f"the old pod is kept by {', '.join(facts.kept_by)}" if facts.kept_by else ""
    if late and kept:
        return stop(
            f"No replacement of pod {step.params['pod']} has appeared: {kept}.",
            f"Whoever set that finalizer takes it off {step.params['pod']}; it is never forced. Then resume.",
            cause="replacement-missing",
        )
    if late:
        return stop(
            f"No replacement of pod {step.params['pod']} has appeared.",
            f"Look at {step.params['owner']}: scaled down, deleted, at its quota? Resume or cancel.",
            cause="replacement-missing",
        )
    return wait(f"waiting for the owner to make a replacement{'; ' * bool(kept)}{kept}")


def _decide_unbound(step: Step, facts: Facts, pod: Json, late: bool) -> Decision:
    target, seen = step.params["target"], {"replacement": uid(pod), "replacement_name": name(pod)}
    gated, kept = is_gated(pod), step.params.get("taint", "")
    if gated and (late or not facts.hostname):
        return act("free_pod", f"{name(pod)} cannot be pinned to {target}: freed", seen=seen, pod=pod)
    if kept and not gated and not tolerates_held(pod, kept) and not late:
        return act("let_in", f"{name(pod)} came ungated: let onto {target}", seen=seen, pod=pod)
    holds = facts.hold is not None or facts.room is not None
    if not kept and nominated(pod) != target and (gated or holds):
        return act("nominate", f"{target} is kept for {name(pod)}", seen=seen, pod=pod)
    given = give_over(facts.hold, facts.room, f"the room on {target} is now kept for {name(pod)} itself")
    if given is not None:
        return given
    if gated:
        words = f"pin {name(pod)} to {target} and let it go"
        return act("pin", words, seen=seen if kept else None, pod=pod, hostname=facts.hostname)
    pinned = is_pinned(pod, sent=_sent(step), pins_to=step.params.get("pins_to", ""))
    if late and pinned and facts.no_room and "evict_replacement" not in _sent(step):
        return act(
            "evict_replacement",
            f"{facts.no_room}: {name(pod)} is pinned there, so its owner makes a free one",
            seen={"replacement": "", "was_freed": True, "given_up": uid(pod)},
            pod=pod,
        )
    if late and _was_freed_by_others(step, facts):
        return moot(
            f"{name(pod)} was freed from our gate while nobody was there to land it; it waits for a node",
            **seen,
        )
    if late:
        why = why_still_kept(facts.hold) or facts.no_room or "see its events"
        return stop(
            f"Replacement {name(pod)} has found no node: {why}.",
            "Look at the pod's events; resume to wait on, or cancel.",
            cause="replacement-pending",
        )
    return wait(f"{name(pod)} is on its way to {target}", **seen)


def _decide_bound(step: Step, facts: Facts, pod: Json, late: bool) -> Decision:
    params, ready_since = step.params, step.observed.get("seen", {}).get("ready_since", "")
    seen = {"replacement": uid(pod), "replacement_name": name(pod), "landed_on": node_of(pod)}
    if node_of(pod) != params["target"]:
        return _decide_elsewhere(step, facts, pod, late, seen)
    if not _asks_for_the_same(pod, params):
        return stop(
            f"Replacement {name(pod)} asks for other devices than the pod that was moved.",
            "Its owner was changed meanwhile. Cancel and make a new plan.",
            cause="replacement-differs",
            **seen,
        )
    if is_finished(pod):
        return done("the replacement ran and finished", **seen)
    if not is_ready(pod):
        if late:
            return stop(
                f"Replacement {name(pod)} is on {params['target']} and does not become Ready.",
                "Look at the pod's events and logs; resume to wait on, or cancel.",
                cause="replacement-not-ready",
                **seen,
            )
        return wait(f"{name(pod)} starts on {params['target']}", **seen, ready_since="")
    since = moment(ready_since) or facts.now
    if (facts.now - since).total_seconds() < params["min_ready_seconds"]:
        return wait(f"{name(pod)} is Ready on {params['target']}", **seen, ready_since=since.isoformat())
    if not facts.is_old_gone:
        return wait_long(f"{ENDING} on {params['source']}", **seen, ready_since=ready_since)
    return done(f"{name(pod)} is Ready on {params['target']}", **seen)


def _decide_elsewhere(step: Step, facts: Facts, pod: Json, late: bool, seen: Json) -> Decision:
    """It does not count as landed. Where nothing of the plan is hurt by it, the rest goes on."""
    params, where = step.params, node_of(pod)
    if _was_freed_by_others(step, facts):
        return moot(
            f"{name(pod)} was freed from our gate while nobody was there to land it; it is on {where}", **seen
        )
    was_missed = not facts.found.by_gate and form_of(params) != Form.BEST_EFFORT
    if was_missed and where not in facts.kept and _asks_for_the_same(pod, params):
        since = moment(step.observed.get("seen", {}).get("ready_since", "")) or facts.now
        if is_ready(pod) and (facts.now - since).total_seconds() >= params["min_ready_seconds"]:
            words = f"{name(pod)} came while nothing of ours was there to gate it; it is Ready on {where}"
            return moot(f"{words}, where it takes nothing that the plan keeps", **seen)
        if not late:
            at = since.isoformat() if is_ready(pod) else ""
            return wait(f"{name(pod)} came ungated and starts on {where}", **seen, ready_since=at)
    return stop(
        f"Replacement {name(pod)} runs on {where}, not on {params['target']}: {_why_elsewhere(step, facts)}",
        "The workload is whole; what the plan promised is not. Cancel and make a new plan.",
        cause="replacement-elsewhere",
        **seen,
    )


def _asks_for_the_same(pod: Json, params: Json) -> bool:
    return all(devices(pod, resource) == amount for resource, amount in params["devices"].items())


def _was_freed_by_others(step: Step, facts: Facts) -> bool:
    """By the gate watchdog: it carries our mark, and neither pin nor release of ours went out."""
    pod = facts.found.pod
    is_ours = bool({"pin", "free_pod"} & set(_sent(step))) or (
        pod is not None and is_pinned(pod, sent=_sent(step), pins_to=step.params.get("pins_to", ""))
    )
    return facts.found.by_gate and not is_ours


def _why_elsewhere(step: Step, facts: Facts) -> str:
    if form_of(step.params) == Form.BEST_EFFORT:
        return "it was not steered, as approved (best effort)."
    return "it was freed from the pin." if facts.found.by_gate else "the gate did not catch it in time."


def decide_undo(step: Step, facts: Facts) -> Decision:
    return done("what has landed stays where it is")


def apply(context: Context, step: Step, decision: Decision) -> None:
    gateway, arguments, namespace = context.gateway, decision.arguments, step.params["namespace"]
    if decision.effect == "open_again":
        open_again(context.lease, arguments["steering"])
        return
    if decision.effect in ("delete_hold", "close_room"):
        send_hold_effect(context, step, decision)
        return
    pod = arguments["pod"]
    if decision.effect == "evict_replacement":
        # As it was seen: one that got its node meanwhile has landed, and is nobody's to evict.
        gateway.evict_pod(namespace, name(pod), uid=uid(pod), version=version(pod))
    elif decision.effect == "nominate":
        patch = nomination(pod, step.params["target"])
        gateway.patch_object(PODS, name(pod), patch, namespace=namespace, subresource="status")
    elif decision.effect == "let_in":
        patch = toleration_patch(pod, step.params["taint"])
        gateway.patch_object(PODS, name(pod), patch, namespace=namespace)
    else:
        is_pin, kept = decision.effect == "pin", step.params.get("taint", "")
        patch = pin_and_ungate(pod, arguments["hostname"], kept) if is_pin else ungate(pod)
        gateway.patch_object(PODS, name(pod), patch, namespace=namespace, strategic=True)


def _sent(step: Step) -> list[str]:
    return list(step.observed.get("sent", []))
