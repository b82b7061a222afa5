"""Step ``steer``: the owner's next pod is created with our scheduling gate.

One effect: the MutatingWebhookConfiguration that asks our webhook about that owner's new pods. The row that
says how many may be gated (one) was written with the step.
Undone by `steps.release`'s effects: configuration deleted, row closed, gated pods freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, stop
from apps.executions.models import Step
from apps.executions.objects import steering_webhook
from apps.executions.sightings import label
from apps.executions.steps import release
from apps.kube.errors import AlreadyExists, KubeError
from apps.kube.gateway import WEBHOOKS

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    configuration: Json | None
    address: str
    owned: str
    traces: release.Facts


def observe(context: Context, step: Step) -> Facts:
    traces = release.observe(context, step)
    found = context.gateway.get_object(WEBHOOKS, names.webhook_name(step.params["steering"]))
    steering = traces.steering
    address = ""
    if steering is not None:
        address = f"{context.place.steering_url}/steering/{steering.name}/{steering.secret}"
    return Facts(found, address, context.owned, traces)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    found = facts.configuration
    if found is None:
        return act("create_webhook", f"gate the next pod of {step.params['owner']}", address=facts.address)
    called = [(hook.get("clientConfig") or {}).get("url") for hook in found.get("webhooks") or []]
    if label(found, names.OWNED) != facts.owned or called != [facts.address]:
        return stop(
            f"A webhook configuration named {names.webhook_name(step.params['steering'])} is there and is "
            "not the one of this execution.",
            "Another console may steer this cluster. Find out whose it is, delete it, then resume.",
        )
    return done("the next pod will be gated")


def decide_undo(step: Step, facts: Facts) -> Decision:
    return release.decide(step, facts.traces, late=False)


def apply(context: Context, step: Step, decision: Decision) -> None:
    if decision.effect != "create_webhook":
        release.apply(context, step, decision)
        return
    body = steering_webhook(
        step.params,
        owned=context.owned,
        address=decision.arguments["address"],
        ca_bundle=context.place.ca_bundle,
    )
    try:
        context.gateway.create_object(WEBHOOKS, body)
    except AlreadyExists:
        return  # the next look tells whose it is
    except KubeError as error:
        raise _without_secret(error, decision.arguments["address"]) from None


def _without_secret(error: KubeError, address: str) -> KubeError:
    """A refusal may repeat what was sent; the secret in the address belongs into no ledger or log."""
    secret = address.rpartition("/")[2]
    message = str(error).replace(secret, "…") if secret else str(error)
    return type(error)(message, status=error.status, retry_after=error.retry_after)
