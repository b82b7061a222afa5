"""How replacements can be steered onto their targets on a cluster. Asks, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.kube.gateway import WEBHOOKS, Gateway

SUBJECT = "Steering"
POLICY, WEBHOOK, NONE = "parameter", "webhook", "best_effort"
FORMS = {
    POLICY: "Replacements are gated by the standing MutatingAdmissionPolicy: no server of ours is asked.",
    WEBHOOK: "Replacements are gated by our webhook.",
}
UNANSWERED = "The API server must reach it: where it does not answer, pods pass, and one may land elsewhere."


@dataclass(frozen=True, slots=True)
class Way:
    """why: why there is no better form, "" for the best one."""

    form: str
    why: str = ""


def find_way(gateway: Gateway) -> Way:
    """Raises KubeError where the cluster does not answer."""
    if not settings.STEERING_URL:
        return Way(NONE, "The steering webhook has no address (STEERING_URL).")
    lacking = [verb for verb in ("get", "create", "delete") if not gateway.may(verb, WEBHOOKS)]
    if lacking:
        return Way(NONE, f"The console's credential may not {' or '.join(lacking)} {WEBHOOKS.plural}.")
    return Way(WEBHOOK)


def judge_steering(way: Way) -> Iterator[Line]:
    if way.form in FORMS:
        more = f" The better form is not available: {way.why}" if way.why else ""
        means = UNANSWERED if way.form == WEBHOOK else ""
        yield Line(SUBJECT, Standing.OK, FORMS[way.form] + more, means)
        return
    yield Line(
        SUBJECT, Standing.WARNING, f"Replacements cannot be gated: {way.why}",
        "A moved pod would land where the scheduler likes best: no plan with moves is started so unseen.",
        "Set STEERING_URL, or install the standing policy (docs/connecting.md).",
    )  # fmt: skip
