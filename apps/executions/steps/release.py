"""Step ``release``: nothing of a finished move is left in the cluster.

In this order, each where a look shows that it is still there: the webhook configuration or Steering object is
deleted (by the last of the moves that are steered together), the steering row closed, pods that still carry
our gate and that no move needs are freed (unpinned), the hold deleted, or the row closed by which the
extender keeps its room.
The other use of this kind, taking our cordon off a freed node at the end, is `release_cordon`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from apps.executions import names
from apps.executions.admissions import close_steering
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, wait, wait_until_gone
from apps.executions.holds import give_over, send_hold_effect, tell_strange_hold
from apps.executions.kept_rooms import open_room_of
from apps.executions.models import KeptRoom, Steering, Step
from apps.executions.objects import ungate
from apps.executions.sharing import find_gated, is_needed_by_others, marks_of
from apps.executions.sightings import is_finished, is_gated, is_leaving, label, migration, name, node_of, uid
from apps.executions.states import StepKind, StepState
from apps.executions.steering_forms import Form, form_of
from apps.kube.gateway import PODS, STEERINGS, WEBHOOKS

Json = dict[str, Any]
SETTLE_SECONDS = 3.0
"""An admission under way when the configuration went may still bring a gated pod."""


@dataclass(frozen=True)
class Facts:
    """configuration (or Steering object), hold: only this execution's own; what another console made stays.
    configuration: None also while other moves are steered by it. gated: pods of this move that still wait
    behind our gate. closed_for: seconds since the row closed. has_landed: the one admission is known to have
    become the replacement: no other can follow. left: what has a name of this move and does not carry our
    label, so that it stays. pinned: its replacements that have no node yet and may go to the target alone."""

    configuration: Json | None
    steering: Steering | None
    hold: Json | None
    gated: list[Json] = field(default_factory=list)
    closed_for: float = 0.0
    has_landed: bool = False
    left: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    room: KeptRoom | None = None


def observe(context: Context, step: Step) -> Facts:
    gateway, params = context.gateway, step.params
    named = find_configuration(context, params)
    paper = gateway.get_object(PODS, params["hold"], namespace=context.place.namespace)
    configuration, hold = _own(context, named), _own(context, paper)
    is_strange = named is not None and configuration is None
    left = (
        *([f"{kind_of_configuration(params)} {name(named or {})}"] if is_strange else []),
        *([tell_strange_hold(params)] if paper is not None and hold is None else []),
    )
    if step.kind == StepKind.RELEASE and is_needed_by_others(context, step):
        configuration = None  # released by the last that needs it, or undone together with all others
    steering = steering_of(step)
    pods = gateway.list_owned_pods(params["namespace"], params["workload_uid"])
    gated = list(find_gated(context, step, pods))
    closed_at = steering.closed_at if steering is not None else None
    closed_for = (context.now - closed_at).total_seconds() if closed_at else 0.0
    awaited = context.of_move(step.move, StepKind.AWAIT_REPLACEMENT)
    is_single = form_of(params) == Form.WEBHOOK
    has_landed = is_single and awaited is not None and awaited.state == StepState.VERIFIED
    # While moves go on, another's replacement may carry the same mark and be on its way.
    waiting = find_pinned(pods, marks_of(context, step)) if step.kind == StepKind.STEER else []
    pinned = tuple(f"{params['namespace']}/{name(pod)} to {params['target']}" for pod in waiting)
    room = open_room_of(context, params)
    return Facts(configuration, steering, hold, gated, closed_for, has_landed, left, pinned, room)


def find_pinned(pods: Iterable[Json], marks: Collection[str]) -> list[Json]:
    """By us, or by the webhook when they were made."""
    mine = [pod for pod in pods if migration(pod) in marks and not (is_gated(pod) or node_of(pod))]
    unbound = [pod for pod in mine if not (is_leaving(pod) or is_finished(pod))]
    return [pod for pod in unbound if names.HOSTNAME in (pod["spec"].get("nodeSelector") or {})]


def steering_of(step: Step) -> Steering | None:
    return Steering.objects.filter(step__execution=step.execution_id, step__move=step.move).first()


def find_configuration(context: Context, params: Json) -> Json | None:
    """The webhook configuration or the Steering object of a move, whosoever made it."""
    form, gateway = form_of(params), context.gateway
    if form == Form.BEST_EFFORT:
        return None
    if form == Form.PARAMETER:
        return gateway.get_object(STEERINGS, params["steering"], namespace=context.place.namespace)
    return gateway.get_object(WEBHOOKS, names.webhook_name(params["steering"]))


def kind_of_configuration(params: Json) -> str:
    return "webhook configuration" if form_of(params) == Form.WEBHOOK else "Steering object"


def _own(context: Context, thing: Json | None) -> Json | None:
    return thing if thing is not None and label(thing, names.OWNED) == context.owned else None


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    if facts.configuration is not None:
        if is_leaving(facts.configuration):
            what = f"{kind_of_configuration(step.params)} {name(facts.configuration)}"
            return wait_until_gone(what)
        is_webhook = form_of(step.params) == Form.WEBHOOK
        effect = "delete_webhook" if is_webhook else "delete_parameter"
        return act(effect, "stop gating", configuration=facts.configuration)
    if facts.steering is not None and facts.steering.closed_at is None:
        return act("close_steering", "let every pod through", steering=facts.steering)
    if facts.gated:
        pod = facts.gated[0]
        return act("free_pod", f"free the gated pod {name(pod)}, unpinned", pod=pod)
    given = give_over(facts.hold, facts.room, f"give back the room on {step.params['target']}")
    if given is not None:
        return given
    if facts.hold is not None:
        return wait_until_gone(f"hold {step.params['hold']}")
    if facts.steering is not None and facts.closed_for < SETTLE_SECONDS and not facts.has_landed:
        return wait("looking once more for a late gated pod")
    seen = {"pinned": " and ".join(facts.pinned)} if facts.pinned else {}
    if facts.left:
        seen["left"] = " and ".join(facts.left)
        return done("what is left of this move does not carry our label", **seen)
    return done("nothing of this move is left in the cluster", **seen)


def decide_undo(step: Step, facts: Facts) -> Decision:
    return decide(step, facts, late=False)


def apply(context: Context, step: Step, decision: Decision) -> None:
    gateway, arguments = context.gateway, decision.arguments
    if decision.effect == "delete_webhook":
        found = arguments["configuration"]
        gateway.delete_own_object(WEBHOOKS, name(found), uid=uid(found))
    elif decision.effect == "delete_parameter":
        found = arguments["configuration"]
        gateway.delete_own_object(STEERINGS, name(found), uid=uid(found), namespace=context.place.namespace)
    elif decision.effect == "close_steering":
        close_steering(context.lease, arguments["steering"], context.now)
    elif decision.effect == "free_pod":
        pod = arguments["pod"]
        gateway.patch_object(PODS, name(pod), ungate(pod), namespace=step.params["namespace"], strategic=True)
    else:
        send_hold_effect(context, step, decision)
