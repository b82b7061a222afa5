"""How each kind treats a new object and an update: what is reset, defaulted, kept and validated."""

from __future__ import annotations

import re
import uuid
from typing import Any

from apps.simulator.api_server.calls import now_text
from apps.simulator.api_server.kinds import Kind
from apps.simulator.api_server.pod_defaults import default_pod, fresh_status, qos_class
from apps.simulator.api_server.pod_rules import check_pod_status, check_pod_update
from apps.simulator.api_server.quantities import is_whole
from apps.simulator.api_server.statuses import Cause, bad_value, forbidden_value, invalid
from apps.simulator.api_server.webhook_rules import default_webhooks, webhook_causes
from apps.simulator.api_server.workload_rules import CLAIM_DEFAULTS, job_causes, workload_causes

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
    "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip
PDB_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation "
    "is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BAD_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
MEBIBYTE = 1 << 20
WORKLOADS = ("deployments", "replicasets", "statefulsets", "daemonsets")
SERVER_FIELDS = (
    "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
    "namespace",
)  # fmt: skip


def begin_object(kind: Kind, obj: dict[str, Any]) -> None:
    """Server-given metadata, and the status a new object of its kind starts with."""
    metadata = obj["metadata"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
        metadata.pop(field, None)
    metadata["uid"], metadata["creationTimestamp"] = str(uuid.uuid4()), now_text()
    if kind.has_generation:
        metadata["generation"] = 1
    if "status" in kind.subresources and kind.plural != "nodes":
        obj.pop("status", None)
    default_object(kind, obj)


def begin_status(kind: Kind, obj: dict[str, Any]) -> None:
    """A new pod's status follows from the spec that admission left."""
    if kind.resource == "pods":
        obj["status"] = fresh_status(obj["spec"])


def default_object(kind: Kind, obj: dict[str, Any]) -> None:
    """Fields that a stored object of the kind always has."""
    fill = DEFAULTS.get(kind.resource)
    if fill is not None:
        fill(obj)


def _default_node(node: dict[str, Any]) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    capacity = status.get("capacity")
    if capacity:
        allocatable = status.setdefault("allocatable", {})
        for name, amount in capacity.items():
            allocatable.setdefault(name, amount)
    for condition in status.get("conditions", ()):
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for field in NODE_INFO:
        info.setdefault(field, "")


def _default_namespace(namespace: dict[str, Any]) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _default_budget(budget: dict[str, Any]) -> None:
    status = budget.setdefault("status", {})
    for field in PDB_COUNTS:
        status.setdefault(field, 0)
    for condition in status.get("conditions", ()):
        condition.setdefault("reason", "")
        condition.setdefault("message", "")


def _default_pod_object(pod: dict[str, Any]) -> None:
    default_pod(pod.setdefault("spec", {}))
    if pod.get("status"):
        pod["status"].setdefault("qosClass", qos_class(pod["spec"]))
    for condition in pod.get("status", {}).get("conditions", ()):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)


def _default_replicas(workload: dict[str, Any]) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    workload.setdefault("status", {}).setdefault("replicas", 0)
    _default_template(workload)


def _default_template(workload: dict[str, Any]) -> None:
    template = workload.get("spec", {}).get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        default_pod(template["spec"])


def _default_job(job: dict[str, Any]) -> None:
    spec = job.setdefault("spec", {})
    for field, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
        spec.setdefault(field, value)
    job.setdefault("status", {})
    _default_template(job)


def _default_priority_class(priority: dict[str, Any]) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


DEFAULTS = {
    "nodes": _default_node,
    "namespaces": _default_namespace,
    "pods": _default_pod_object,
    "poddisruptionbudgets.policy": _default_budget,
    "deployments.apps": _default_replicas,
    "replicasets.apps": _default_replicas,
    "statefulsets.apps": _default_replicas,
    "daemonsets.apps": _default_template,
    "jobs.batch": _default_job,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": default_webhooks,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": default_webhooks,
    "priorityclasses.scheduling.k8s.io": _default_priority_class,
    **CLAIM_DEFAULTS,
    "secrets": lambda secret: secret.setdefault("type", "Opaque"),
}


def carry_over(kind: Kind, old: dict[str, Any], new: dict[str, Any], subresource: str) -> dict[str, Any]:
    """The new object with everything kept from the old one that this URL may not change."""
    metadata, before = dict(new["metadata"]), old["metadata"]
    for field in SERVER_FIELDS:
        if field in before:
            metadata[field] = before[field]
        elif not (field == "generation" and not kind.has_generation):
            metadata.pop(field, None)
    if subresource == "status":
        kept_metadata = before if kind.custom else metadata
        kept = {key: value for key, value in old.items() if key not in ("metadata", "status")}
        result = {"metadata": dict(kept_metadata), **kept}
        if "status" in new:
            result["status"] = new["status"]
    else:
        result = {**new, "metadata": metadata}
        if "status" in kind.subresources:
            result.pop("status", None)
            if "status" in old:
                result["status"] = old["status"]
    default_object(kind, result)
    return result


def same_content(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether an update changes nothing, so that nothing is written."""
    ignored = ("resourceVersion", "managedFields")
    if any(old.get(key) != new.get(key) for key in old.keys() | new.keys() if key != "metadata"):
        return False
    before = {k: v for k, v in old["metadata"].items() if k not in ignored}
    return before == {k: v for k, v in new["metadata"].items() if k not in ignored}


def bump_generation(kind: Kind, old: dict[str, Any], new: dict[str, Any]) -> None:
    if not kind.has_generation:
        return
    ignored = ("metadata", "status")
    if any(old.get(key) != new.get(key) for key in old.keys() | new.keys() if key not in ignored):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def check_object(kind: Kind, obj: dict[str, Any], *, updating: bool = False) -> None:
    """What every stored object must satisfy. An update of a node or pod tells its causes twice."""
    metadata, causes = obj["metadata"], []
    name = metadata["name"]
    if not kind.resource.endswith("rbac.authorization.k8s.io") and (len(name) > 253 or not NAME.match(name)):
        causes.append(bad_value("metadata.name", name, BAD_NAME))
    for key, value in metadata.get("labels", {}).items():
        if len(value) > 63 or not LABEL_VALUE.match(value):
            causes.append(bad_value("metadata.labels", value, BAD_LABEL))
        if not LABEL_KEY.match(key):
            causes.append(
                bad_value("metadata.labels", key, "name part must consist of alphanumeric characters")
            )
    rule = RULES.get(kind.resource)
    if rule is not None:
        causes += rule(obj)
    if causes:
        raise invalid(kind, name, *_told_twice(kind, causes if updating else [], causes))


def _told_twice(kind: Kind, again: list[Cause], causes: list[Cause]) -> list[Cause]:
    return [*causes, *again] if kind.resource in ("nodes", "pods") else causes


def _node_causes(node: dict[str, Any]) -> list[Cause]:
    causes, seen = [], set()
    for index, taint in enumerate(node["spec"].get("taints", ())):
        pair = (taint.get("key"), taint.get("effect"))
        if pair in seen:
            shown = (
                f'{{"Key":"{taint.get("key")}","Value":"{taint.get("value", "")}",'
                f'"Effect":"{taint.get("effect")}","TimeAdded":null}}'
            )
            why = f"Duplicate value: {shown}: taints must be unique by key and effect pair"
            causes.append(Cause(f"metadata.taints[{index}]", "FieldValueDuplicate", why))
        seen.add(pair)
    for part in ("capacity", "allocatable"):
        for name, amount in node["status"].get(part, {}).items():
            if "/" in name and not is_whole(amount):
                causes.append(bad_value(f"status.{part}.{name}", amount, "must be an integer"))
    return causes


def _budget_causes(budget: dict[str, Any]) -> list[Cause]:
    spec = budget.get("spec", {})
    if "minAvailable" not in spec or "maxUnavailable" not in spec:
        return []
    shown = (
        f'{{"MinAvailable":{spec["minAvailable"]},"Selector":null,"MaxUnavailable":{spec["maxUnavailable"]},'
        '"UnhealthyPodEvictionPolicy":null}'
    )
    why = f"Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set"
    return [Cause("spec", "FieldValueInvalid", why)]


def _config_causes(obj: dict[str, Any]) -> list[Cause]:
    size = sum(len(str(v)) for field in ("data", "binaryData") for v in obj.get(field, {}).values())
    if size <= MEBIBYTE:
        return []
    return [Cause("[]", "FieldValueTooLong", f"Too long: may not be more than {MEBIBYTE} bytes")]


RULES = {
    "nodes": _node_causes,
    "poddisruptionbudgets.policy": _budget_causes,
    "configmaps": _config_causes,
    "secrets": _config_causes,
    **{f"{plural}.apps": workload_causes for plural in WORKLOADS},
    "jobs.batch": job_causes,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": webhook_causes,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": webhook_causes,
}


def check_update(kind: Kind, old: dict[str, Any], new: dict[str, Any], subresource: str) -> None:
    name, causes = new["metadata"]["name"], []
    if old["metadata"].get("deletionTimestamp"):
        known = old["metadata"].get("finalizers", [])
        added = [f for f in new["metadata"].get("finalizers", []) if f not in known]
        if added:
            shown = ", ".join(f'"{finalizer}"' for finalizer in added)
            why = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{shown}}}"
            )
            finalizers = [forbidden_value("metadata.finalizers", why)]
            causes += _told_twice(kind, finalizers, finalizers)
    if kind.resource == "nodes":
        provider = old["spec"].get("providerID", "")
        if provider and new["spec"].get("providerID", "") != provider:
            why = 'node updates may not change providerID except from "" to valid'
            causes.append(forbidden_value("spec.providerID", why))
    if causes:
        raise invalid(kind, name, *causes)
    if kind.resource == "pods":
        if subresource == "status":
            check_pod_status(kind, old, new)
        else:
            check_pod_update(kind, old, new)
