"""Step ``steer``: the owner's next pod is created with our scheduling gate.

One effect, by the form that the preflight chose (`steering_forms`): a Steering object that the cluster's
standing policy goes by, or the MutatingWebhookConfiguration that asks our webhook about that owner's pods.
The first of the moves that are steered together makes it; the others find it. The row that lets the webhook
gate one pod more was written with the step. A Steering object is then proved, once: a pod like the owner's is
created by dry run, and has to come back with the gate. By best effort there is nothing to do.
Undone by `steps.release`'s effects: object or configuration deleted, row closed, gated pods freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, stop, wait
from apps.executions.models import Steering, Step
from apps.executions.objects import proving_pod, steering_parameter, steering_webhook
from apps.executions.sharing import steered_since
from apps.executions.sightings import is_gated, is_leaving, label
from apps.executions.steering_forms import Form, form_of
from apps.executions.steps import release
from apps.kube.errors import AlreadyExists, KubeError
from apps.kube.gateway import PODS, STEERINGS, WEBHOOKS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """found: the object or configuration of our name. address: of our webhook for it, "" without a row.
    is_as_made: it is ours, and says what this step puts into it.
    is_proved: whether a pod made by dry run came back gated; looked for once the object is there."""

    found: Json | None
    address: str
    traces: release.Facts
    is_as_made: bool = False
    is_proved: bool = False


def observe(context: Context, step: Step) -> Facts:
    traces = release.observe(context, step)
    found = release.find_configuration(context, step.params)
    address = _address(context, traces.steering)
    is_made = found is not None and is_as_made(context, step.params, found, address)
    is_proved = form_of(step.params) == Form.PARAMETER and is_made and _is_proved(context, step)
    return Facts(found, address, traces, is_made, is_proved)


def why_not_in_force(context: Context, params: Json) -> str:
    """What is wrong with what steers a move's replacement, in a sentence; "" if it is there as it was made.
    Reads the cluster."""
    form = form_of(params)
    if form == Form.BEST_EFFORT:
        return ""
    what = f"The {release.kind_of_configuration(params)} that steers the replacement"
    found = release.find_configuration(context, params)
    if found is None or is_leaving(found):
        return f"{what} is gone."
    row = Steering.objects.filter(name=params["steering"]).first()
    if different := what_differs(context, params, found, _address(context, row)):
        which = ", ".join(different)
        return f"{what} was changed by somebody ({which}): the replacement could land anywhere."
    return ""


def _address(context: Context, row: Steering | None) -> str:
    return f"{context.place.steering_url}/steering/{row.name}/{row.secret}" if row is not None else ""


def is_as_made(context: Context, params: Json, found: Json, address: str) -> bool:
    """All that decides whose pods are gated, and by whom. What an API server adds by itself may be there."""
    return not what_differs(context, params, found, address)


def what_differs(context: Context, params: Json, found: Json, address: str) -> list[str]:
    """Names of what is not as this step puts it; never what it says, since the address holds a secret."""
    if label(found, names.OWNED) != context.owned:
        return [f"label {names.OWNED}"]
    if form_of(params) == Form.PARAMETER:
        spec = steering_parameter(params, owned="", deadline="")["spec"]
        return [] if found.get("spec") == spec else ["spec"]
    (made,) = steering_webhook(params, owned="", address=address, ca_bundle=context.place.ca_bundle)[
        "webhooks"
    ]
    hooks = found.get("webhooks") or []
    if len(hooks) != 1:
        return [f"{len(hooks)} webhooks instead of 1"]
    strange = ["objectSelector"] if hooks[0].get("objectSelector") else []
    return strange + [key for key in made if hooks[0].get(key) != made[key]]


def _is_proved(context: Context, step: Step) -> bool:
    """By dry run, so nothing is created; in our own namespace, where alone we may create pods."""
    if steered_since(context, step) is not None:
        return True
    body = proving_pod(step.params)
    return is_gated(context.gateway.would_create(PODS, body, namespace=context.place.namespace))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    form = form_of(step.params)
    if form == Form.BEST_EFFORT:
        return done("best effort: the replacement is not gated")
    if form == Form.PARAMETER:
        return _decide_parameter(step, facts)
    found = facts.found
    if found is None:
        return act("create_webhook", f"gate the next pod of {step.params['owner']}", address=facts.address)
    if not facts.is_as_made:
        return _stop_at_strange(f"webhook configuration named {names.webhook_name(step.params['steering'])}")
    return done("the next pod will be gated")


def _decide_parameter(step: Step, facts: Facts) -> Decision:
    if facts.found is None:
        return act("create_parameter", f"gate the next pods of {step.params['owner']}")
    if not facts.is_as_made:
        return _stop_at_strange(f"Steering object named {step.params['steering']}")
    if not facts.is_proved:
        return wait(
            "the standing policy does not gate yet (if it never does: compare deploy/admission/steering.yaml)"
        )
    return done("the next pods will be gated: proved by dry run")


def _stop_at_strange(what: str) -> Decision:
    return stop(
        f"A {what} is there and is not the one of this execution.",
        "Another console may steer this cluster. Find out whose it is, delete it, then resume.",
        cause="steering-taken",
    )


def decide_undo(step: Step, facts: Facts) -> Decision:
    return release.decide(step, facts.traces, late=False)


def apply(context: Context, step: Step, decision: Decision) -> None:
    if decision.effect == "create_parameter":
        _create_parameter(context, step)
    elif decision.effect == "create_webhook":
        _create_webhook(context, step, decision.arguments["address"])
    else:
        release.apply(context, step, decision)


def _create_parameter(context: Context, step: Step) -> None:
    body = steering_parameter(step.params, owned=context.owned, deadline=context.traces_deadline)
    try:
        context.gateway.create_object(STEERINGS, body, namespace=context.place.namespace)
    except AlreadyExists:
        return  # the next look tells whose it is


def _create_webhook(context: Context, step: Step, address: str) -> None:
    body = steering_webhook(
        step.params,
        owned=context.owned,
        address=address,
        ca_bundle=context.place.ca_bundle,
        deadline=context.traces_deadline,
    )
    try:
        context.gateway.create_object(WEBHOOKS, body)
    except AlreadyExists:
        return  # the next look tells whose it is
    except KubeError as error:
        raise _without_secret(error, address) from None


def _without_secret(error: KubeError, address: str) -> KubeError:
    """A refusal may repeat what was sent; the secret in the address belongs into no ledger or log."""
    secret = address.rpartition("/")[2]
    message = str(error).replace(secret, "…") if secret else str(error)
    return type(error)(message, status=error.status, retry_after=error.retry_after)
