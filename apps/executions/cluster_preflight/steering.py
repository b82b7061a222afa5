"""How replacements can be steered onto their targets on a cluster. Asks, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.steering_forms import Form, choose_form
from apps.kube.gateway import Gateway
from apps.kube.own_rights import OwnRights

SUBJECT = "Steering"
POLICY, WEBHOOK, NONE = str(Form.PARAMETER), str(Form.WEBHOOK), str(Form.BEST_EFFORT)
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


def find_way(gateway: Gateway, rights: OwnRights) -> Way:
    """As the preflight of a plan chooses it. Raises KubeError where the cluster does not answer."""
    choice = choose_form(gateway, rights)
    return Way(str(choice.form), choice.why)


def judge_steering(way: Way) -> Iterator[Line]:
    if way.form in FORMS:
        more = f" The better form is not available: {way.why}" if way.why else ""
        means = UNANSWERED if way.form == WEBHOOK else ""
        yield Line(SUBJECT, Standing.OK, FORMS[way.form] + more, means)
        return
    yield Line(
        SUBJECT, Standing.WARNING, f"Replacements cannot be gated: {way.why}",
        "Moves are best effort: the target is nominated, and the replacement may land elsewhere. A plan is "
        "started so only if its reviewers were told.",
        "Install deploy/admission/steering.yaml, or set STEERING_URL (docs/connecting.md).",
    )  # fmt: skip
