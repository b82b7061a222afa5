"""What a Pod may look like, and what of a stored Pod's spec may still change."""

from __future__ import annotations

import difflib
import json
from typing import Any

from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.quantities import is_whole
from apps.simulator.api_server.statuses import Cause, bad_value, forbidden_value, invalid, required

STANDARD = ("cpu", "memory", "ephemeral-storage")
IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def check_new_pod(kind: Kind, pod: dict[str, Any]) -> None:
    spec, causes = pod.get("spec", {}), []
    if not spec.get("containers"):
        causes.append(required("spec.containers", ""))
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field, ())):
            causes += _container_causes(f"spec.{field}[{index}]", container)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(
            forbidden_value("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    if causes:
        raise invalid(kind, pod["metadata"]["name"], *causes)


def _container_causes(path: str, container: dict[str, Any]) -> list[Cause]:
    causes = []
    if not container.get("name"):
        causes.append(required(f"{path}.name", ""))
    if not container.get("image"):
        causes.append(required(f"{path}.image", ""))
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            causes += _amount_causes(f"{path}.resources.{part}[{name}]", name, amount)
    for name, amount in requests.items():
        if "/" in name and name not in limits:
            why = "Limit must be set for non overcommitable resources"
            causes.append(required(f"{path}.resources.limits", why))
        elif "/" in name and limits[name] != amount:
            why = f"must be equal to {name} limit of {limits[name]}"
            causes.append(bad_value(f"{path}.resources.requests", amount, why))
    return causes


def _amount_causes(path: str, name: str, amount: str) -> list[Cause]:
    if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
        return [
            bad_value(path, name, "must be a standard resource type or fully qualified"),
            bad_value(path, name, "must be a standard resource for containers"),
        ]
    if "/" in name and not is_whole(amount):
        return [bad_value(path, amount, "must be an integer")]
    if amount.startswith("-"):
        return [bad_value(path, amount, "must be greater than or equal to 0")]
    return []


def check_pod_update(kind: Kind, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuses a change of spec that a real server refuses."""
    before, after, name = old.get("spec", {}), new.get("spec", {}), new["metadata"]["name"]
    if before == after:
        return
    causes = _gate_causes(before, after)
    causes += _toleration_causes(before, after)
    if before.get("schedulingGates"):
        causes += _narrowing_causes(before, after)
    if causes:
        raise invalid(kind, name, *causes)
    allowed = _with_mutable_fields(before, after)
    if allowed != after:
        raise invalid(kind, name, forbidden_value("spec", f"{IMMUTABLE}\n{_difference(allowed, after)}"))


def _gate_causes(before: dict[str, Any], after: dict[str, Any]) -> list[Cause]:
    known = {gate["name"] for gate in before.get("schedulingGates", ())}
    return [
        forbidden_value(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(after.get("schedulingGates", ()))
        if gate["name"] not in known
    ]


def _toleration_causes(before: dict[str, Any], after: dict[str, Any]) -> list[Cause]:
    def plain(toleration: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in toleration.items() if k != "tolerationSeconds"}

    kept = [plain(t) for t in after.get("tolerations", ())]
    if all(plain(t) in kept for t in before.get("tolerations", ())):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_value("spec.tolerations", why)]


def _narrowing_causes(before: dict[str, Any], after: dict[str, Any]) -> list[Cause]:
    """A gated pod's node selection may only become narrower."""
    old, new = before.get("nodeSelector", {}), after.get("nodeSelector", {})
    if any(new.get(key) != value for key, value in old.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [bad_value("spec.nodeSelector", new, why)]
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    had, has = _required_terms(before), _required_terms(after)
    if had is None or had == has:
        return []
    if has is None or len(had) != len(has):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [bad_value(f"{path}.nodeSelectorTerms", has, why)]
    return [
        bad_value(
            f"{path}.nodeSelectorTerms[{index}]",
            term,
            "only additions are allowed (no mutations or deletions)",
        )
        for index, (old_term, term) in enumerate(zip(had, has, strict=True))
        if not _is_narrower(old_term, term)
    ]


def _required_terms(spec: dict[str, Any]) -> list[dict[str, Any]] | None:
    node = spec.get("affinity", {}).get("nodeAffinity", {})
    return node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


def _is_narrower(old: dict[str, Any], new: dict[str, Any]) -> bool:
    fields = ("matchExpressions", "matchFields")
    return all(entry in new.get(field, ()) for field in fields for entry in old.get(field, ()))


def _with_mutable_fields(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The old spec with the fields taken from the new one that may change."""
    allowed = dict(before)
    fields = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if before.get("schedulingGates"):
        fields += ["nodeSelector", "affinity"]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        fields.append("terminationGracePeriodSeconds")
    for field in fields:
        if field in after:
            allowed[field] = after[field]
        else:
            allowed.pop(field, None)
    for field in ("containers", "initContainers"):
        if len(before.get(field, ())) == len(after.get(field, ())) and field in before:
            pairs = zip(before[field], after[field], strict=True)
            allowed[field] = [{**old, "image": new.get("image", "")} for old, new in pairs]
    return allowed


def _difference(allowed: dict[str, Any], wanted: dict[str, Any]) -> str:
    was, asked = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (allowed, wanted))
    lines = list(difflib.unified_diff(was, asked, lineterm="", n=3))[2:]
    return "\n".join(lines) + "\n"


def check_pod_status(kind: Kind, old: dict[str, Any], new: dict[str, Any]) -> None:
    """A bound pod can no longer be nominated for a node."""
    nominated = new.get("status", {}).get("nominatedNodeName")
    if (
        nominated
        and nominated != old.get("status", {}).get("nominatedNodeName")
        and old["spec"].get("nodeName")
    ):
        why = "status.nominatedNodeName: may not be set once the pod is bound to a node"
        raise invalid(kind, new["metadata"]["name"], forbidden_value("status.nominatedNodeName", why))
