"""What a Deployment, ReplicaSet, StatefulSet, DaemonSet or Job must say, and a device request's defaults."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.selectors import selector_matches
from apps.simulator.api_server.statuses import Cause, bad_value, required

RESTARTS_OF_JOBS = ("OnFailure", "Never")


def workload_causes(workload: dict[str, Any]) -> list[Cause]:
    """A selector that takes the template's labels, and a template with containers."""
    spec, causes = workload.get("spec", {}), []
    selector, template = spec.get("selector"), spec.get("template") or {}
    if not selector:
        causes.append(required("spec.selector", ""))
    labels = (template.get("metadata") or {}).get("labels")
    if not selector or not selector_matches(selector, labels):
        why = "`selector` does not match template `labels`"
        causes.append(bad_value("spec.template.metadata.labels", labels, why))
    return [*causes, *_template_causes(template)]


def job_causes(job: dict[str, Any]) -> list[Cause]:
    template = job.get("spec", {}).get("template") or {}
    causes = _template_causes(template)
    policy = (template.get("spec") or {}).get("restartPolicy", "Always")
    if policy not in RESTARTS_OF_JOBS:
        why = 'valid values: "OnFailure", "Never"'
        causes.append(required("spec.template.spec.restartPolicy", why))
    return causes


def _template_causes(template: dict[str, Any]) -> list[Cause]:
    if (template.get("spec") or {}).get("containers"):
        return []
    return [required("spec.template.spec.containers", "")]


def claim_state(claim: dict[str, Any]) -> str:
    """As kubectl prints it."""
    words = ["deleted"] if claim["metadata"].get("deletionTimestamp") else []
    status = claim.get("status") or {}
    if "allocation" in status:
        words += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return ",".join(words or ["pending"])


def default_claim(claim: dict[str, Any]) -> None:
    """A request for devices means exactly one unless it says otherwise."""
    for request in claim.get("spec", {}).get("devices", {}).get("requests", ()):
        for wanted in (request.get("exactly"), *request.get("firstAvailable", ())):
            if isinstance(wanted, dict):
                wanted.setdefault("allocationMode", "ExactCount")
                if wanted["allocationMode"] == "ExactCount":
                    wanted.setdefault("count", 1)


def default_claim_template(template: dict[str, Any]) -> None:
    default_claim({"spec": template.get("spec", {}).get("spec", {})})


CLAIM_DEFAULTS = {
    "resourceclaims.resource.k8s.io": default_claim,
    "resourceclaimtemplates.resource.k8s.io": default_claim_template,
}
