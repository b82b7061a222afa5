"""Whether targets can take what the plan brings them, looked at now: all of them before the first eviction.

A hold is a nomination: a pod of a higher rank, or one that is bound past the scheduler, takes the room all
the same. What counts as room: `spare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apps.executions.context import Context
from apps.executions.decisions import Decision, stop
from apps.executions.flow import is_finished
from apps.executions.kept_rooms import requests_of_others
from apps.executions.models import Step
from apps.executions.objects import Json
from apps.executions.sightings import is_cordoned_by, name, nominated, uid
from apps.executions.spare import why_no_room
from apps.executions.states import StepKind, StepState
from apps.kube.gateway import NODES, PODS
from apps.planner.resources import add_quantities


def look_at_room(
    context: Context,
    params: Mapping[str, Any],
    *,
    is_opened_later: bool = False,
    away: Sequence[Mapping[str, int]] = (),
) -> str:
    """Why the target cannot take this move's pod beside all that it holds and is promised to, "" if it can.
    is_opened_later: our own cordon on it goes before the move begins. away: what other moves will ask for
    there (`promised_by_taint`)."""
    return _why_no_room(context, [params], is_opened_later, away)


def decide_without_target(context: Context, params: Mapping[str, Any]) -> Decision | None:
    """A stop where the target is gone, which no waiting brings back. None while it is there."""
    if not _is_gone(context, params):
        return None
    return stop(
        f"Target {params['target']} is gone or was made anew since the plan was approved.",
        f"Cancel and ask for a new plan; {params['pod']} was not evicted.",
        cause="node-gone",
    )


def decide_without_any_target(context: Context) -> Decision | None:
    """The same of every move that is still to come, so that no pod leaves for a plan that cannot come to its
    end; None once a pod of the plan was evicted."""
    gone = next((move for move in _moves_to_come(context) if _is_gone(context, move)), None)
    if gone is None:
        return None
    return stop(
        f"Target {gone['target']}, where {gone['pod']} is to go, is gone or was made anew since the plan was "
        "approved.",
        "Cancel and ask for a new plan; no pod was evicted.",
        cause="node-gone",
    )


def _is_gone(context: Context, params: Mapping[str, Any]) -> bool:
    node = context.gateway.get_object(NODES, params["target"])
    return node is None or uid(node) != params["target_uid"]


def look_at_room_of(pod: Json, context: Context, params: Mapping[str, Any]) -> str:
    """Why the target cannot take this replacement, which had no node yet, beside all others there. It may
    have come there itself since it was looked at."""
    target = context.gateway.get_object(NODES, params["target"])
    found = context.gateway.list_objects(PODS, field_selector=f"spec.nodeName={params['target']}")
    others = [one for one in found if uid(one) != uid(pod)]
    return why_no_room(target, others, params["requests"], node_uid=params["target_uid"])


def promised_by_taint(context: Context, step: Step) -> list[Json]:
    """What the other moves of this wave and before will ask for on a target that has no paper holds."""
    target = step.params["target"]
    there = {uid(pod) for pod in context.gateway.list_objects(PODS, field_selector=f"spec.nodeName={target}")}
    waits = [s for s in context.steps if s.kind == StepKind.AWAIT_REPLACEMENT and s.move != step.move]
    coming = [s for s in waits if s.params["target"] == target and s.wave <= step.wave and not is_finished(s)]
    return [
        s.params["requests"] for s in coming if s.observed.get("seen", {}).get("replacement") not in there
    ]


def look_at_all_rooms(context: Context) -> str:
    """The same of every move that is still to come, all together; "" once a pod of the plan was evicted."""
    by_target: dict[str, list[Mapping[str, Any]]] = {}
    for move in _moves_to_come(context):
        by_target.setdefault(move["target"], []).append(move)
    found = (_why_no_room(context, moves, False) for _, moves in sorted(by_target.items()))
    return next((why for why in found if why), "")


def _moves_to_come(context: Context) -> list[Mapping[str, Any]]:
    """None once a pod of the plan was evicted: then each move looks at its own target alone."""
    evictions = [step for step in context.steps if step.kind == StepKind.EVICT_POD]
    if any(_went_out(step) for step in evictions):
        return []
    return [step.params for step in evictions if not is_finished(step)]


def _went_out(evict: Step) -> bool:
    return evict.state == StepState.VERIFIED or "evict" in evict.observed.get("sent", [])


def _why_no_room(
    context: Context,
    moves: Sequence[Mapping[str, Any]],
    is_opened_later: bool,
    away: Sequence[Mapping[str, int]] = (),
) -> str:
    """Of moves to one target. Their own holds are not counted: those stand for what is asked."""
    gateway, params = context.gateway, moves[0]
    target = gateway.get_object(NODES, params["target"])
    there = gateway.list_objects(PODS, field_selector=f"spec.nodeName={params['target']}")
    holds = {move["hold"] for move in moves}
    promised = [
        other
        for other in gateway.list_objects(PODS, field_selector="spec.nodeName=")
        if nominated(other) == params["target"] and name(other) not in holds
    ]
    if is_opened_later and target is not None and is_cordoned_by(target, context.execution.pk, context.mark):
        target = _as_opened(target)
    wanted = add_quantities(dict(move["requests"]) for move in moves)
    return why_no_room(
        target,
        [*there, *promised],
        wanted,
        node_uid=params["target_uid"],
        pods_wanted=len(moves),
        promised=[*away, *requests_of_others(params["target_uid"], holds)],
    )


def _as_opened(node: Json) -> Json:
    return {**node, "spec": {**(node.get("spec") or {}), "unschedulable": False}}
