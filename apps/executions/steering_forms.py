"""How the next pod of an owner can be gated on a cluster: chosen by what it serves and what we may do there.

PARAMETER    a standing MutatingAdmissionPolicy that the cluster's admin installed (deploy/admission), with
             one object of our kind per owner. No server of ours is asked.
WEBHOOK      our webhook, by one configuration per owner
BEST_EFFORT  neither: the pod's replacement comes ungated, and the target is nominated for it at once

The choice is made at the preflight and stands in the steps from then on. Best effort is taken only where the
reviewers of the plan were told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.conf import settings

from apps.executions import names
from apps.executions.sightings import annotation
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import BINDINGS, POLICIES, STEERINGS, WEBHOOKS, Gateway, Json, Kind
from apps.kube.own_rights import OwnRights

EXPECTED = "1"
"""What the standing policy says of itself (deploy/admission/steering.yaml)."""


class Form(StrEnum):
    PARAMETER = "parameter"
    WEBHOOK = "webhook"
    BEST_EFFORT = "best_effort"


@dataclass(frozen=True)
class Choice:
    """why: why no better form could be had, "" for the best one."""

    form: Form
    why: str = ""

    @property
    def warning(self) -> str:
        """What reviewers are told beside each move, "" where the replacement is steered."""
        if self.form != Form.BEST_EFFORT:
            return ""
        return f"{BEST_EFFORT_WORDS}. {self.why}"


BEST_EFFORT_WORDS = "Best effort: the replacement is not steered and can land on another node"


def choose_form(gateway: Gateway, rights: OwnRights) -> Choice:
    """Asks the cluster; changes nothing. Raises KubeError where it cannot be asked."""
    no_policy = _why_no_policy(gateway, rights)
    if not no_policy:
        return Choice(Form.PARAMETER)
    no_webhook = _why_no_webhook(rights)
    if not no_webhook:
        return Choice(Form.WEBHOOK, no_policy)
    return Choice(Form.BEST_EFFORT, f"{no_webhook} {no_policy}")


def form_of(params: Json) -> Form:
    """Of a step. One written before there was a choice goes by the webhook."""
    return Form(params.get("form", Form.WEBHOOK))


def why_not_steered(choice: Choice, told: Sequence[str]) -> str:
    """A refusal where moves could only be made by best effort and the reviewers did not hear of it, else "".

    told: the messages that stood beside the moves when the plan was approved.
    """
    if choice.form != Form.BEST_EFFORT:
        return ""
    if told and all(BEST_EFFORT_WORDS in message for message in told):
        return ""
    return (
        f"Moved pods cannot be steered onto their targets: {choice.why} Mend that and start again; or ask "
        "for a new plan, whose reviewers are told that it is carried out by best effort."
    )


def _why_no_policy(gateway: Gateway, rights: OwnRights) -> str:
    where = "(deploy/admission/steering.yaml, docs/connecting.md)"
    policy = _read(gateway, POLICIES)
    binding = _read(gateway, BINDINGS) if policy is not None else None
    if policy is None or binding is None:
        return f"The standing steering policy is not installed, or may not be read {where}."
    if annotation(policy, names.FORM) != EXPECTED or not _is_bound(binding):
        return f"The standing steering policy is of another release {where}."
    missing = _missing(rights, STEERINGS, settings.STEERING_NAMESPACE)
    if missing:
        return missing
    try:
        gateway.list_objects(STEERINGS, namespace=settings.STEERING_NAMESPACE)
    except NotFound:
        return f"The kind Steering is not installed {where}."
    return ""


def _is_bound(binding: Json) -> bool:
    spec = binding.get("spec") or {}
    parameters = spec.get("paramRef") or {}
    bound = spec.get("policyName"), parameters.get("namespace")
    return bound == (names.STEERING_POLICY, settings.STEERING_NAMESPACE)


def _read(gateway: Gateway, kind: Kind) -> Json | None:
    """None where it is not there, not served, or hidden from us."""
    try:
        return gateway.get_object(kind, names.STEERING_POLICY)
    except Forbidden:
        return None


def _why_no_webhook(rights: OwnRights) -> str:
    if not settings.STEERING_URL:
        return "The steering webhook has no address (STEERING_URL)."
    return _missing(rights, WEBHOOKS, verbs=(*VERBS, "watch"))  # the live view follows them


VERBS = ("get", "create", "delete")


def _missing(rights: OwnRights, kind: Kind, namespace: str = "", *, verbs: tuple[str, ...] = VERBS) -> str:
    lacking = [verb for verb in verbs if not rights.may(verb, kind, namespace=namespace)]
    return f"The console's credential may not {' or '.join(lacking)} {kind.plural}." if lacking else ""
