"""Cuts API objects down to what `translate` reads, before they are kept.

Most of an object is of no use here (managed fields, mounts, probes), and container environments may
hold secrets, which must not lie in this program's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.gateway import (
    CLAIMS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUED_WORKLOADS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLUMES,
    Json,
    Kind,
)

METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CONTAINER = ("name", "image", "resources", "ports", "restartPolicy", "stdin", "tty")
POD_SPEC = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "topologySpreadConstraints",
    "tolerations",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "schedulerName",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "overhead",
    "resources",
    "resourceClaims",
    "volumes",
    "schedulingGroup",
    "workloadRef",
)
POD_STATUS = (
    "phase",
    "reason",
    "conditions",
    "startTime",
    "nominatedNodeName",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)
DEVICE_ATTRIBUTES = frozenset(
    {
        "type",
        "uuid",
        "parentUUID",
        "profile",
        "productName",
        "model",
        "index",
        "minor",
        "parentIndex",
        "parentMinor",
        "pcieRoot",
        "pciRoot",
        "pcieBusID",
        "pciBusID",
        "pciBusId",
        "pciAddress",
        "pciAddr",
        "numaNode",
        "numaNodeID",
        "numa",
        "placementStart",
        "healthy",
    }
)
"""By their names without a domain."""
QUEUED_STATUS = ("conditions", "admission", "requeueState", "admissionChecks")
NODE_SPEC = ("taints", "unschedulable")
NODE_STATUS = ("capacity", "allocatable", "conditions")


def trim_object(kind: Kind, raw: Json) -> Json:
    """A new, smaller object; `raw` is left alone."""
    metadata = _pick(raw.get("metadata"), METADATA)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        metadata["annotations"] = {key: annotations[key] for key in annotations if key != LAST_APPLIED}
    trimmed: Json = {"metadata": metadata}
    if kind == PODS:
        trimmed["spec"] = _pod_spec(raw.get("spec"))
        trimmed["status"] = _pick(raw.get("status"), POD_STATUS)
    elif kind == NODES:
        trimmed["spec"] = _pick(raw.get("spec"), NODE_SPEC)
        trimmed["status"] = _pick(raw.get("status"), NODE_STATUS)
    elif kind in (CLAIMS, VOLUMES):
        trimmed["spec"] = _pick(raw.get("spec"), ("volumeName", "nodeAffinity"))
    elif kind == RESOURCE_SLICES:
        trimmed["spec"] = _slice_spec(raw.get("spec"))
    elif kind == RESOURCE_CLAIMS:
        trimmed["spec"] = _mapping(raw.get("spec"))
        trimmed["status"] = _pick(raw.get("status"), ("allocation", "reservedFor"))
    elif kind == QUEUED_WORKLOADS:
        trimmed["spec"] = _queued_spec(raw.get("spec"))
        trimmed["status"] = _pick(raw.get("status"), QUEUED_STATUS)
    elif kind not in (NAMESPACES, PRIORITY_CLASSES):
        trimmed["spec"] = _other_spec(raw.get("spec"))
        trimmed["status"] = raw.get("status")
    return trimmed


def _other_spec(spec: object) -> Json:
    """Pod templates are left out, but for those that ask for devices by claims."""
    trimmed = {key: value for key, value in _mapping(spec).items() if key != "template"}
    template = _mapping(_mapping(_mapping(spec).get("template")).get("spec"))
    if template.get("resourceClaims"):
        trimmed["template"] = {"spec": _pod_spec(template)}
    return trimmed


def _queued_spec(spec: object) -> Json:
    """Of the pods that it wants, no more than of pods: their environments may hold secrets."""
    trimmed = dict(_mapping(spec))
    pod_sets = trimmed.get("podSets")
    if isinstance(pod_sets, list):
        trimmed["podSets"] = [_pod_set(one) for one in pod_sets if isinstance(one, Mapping)]
    return trimmed


def _pod_set(pod_set: Mapping[str, Any]) -> Json:
    template = _mapping(pod_set.get("template"))
    metadata = _pick(template.get("metadata"), ("labels", "annotations"))
    kept = {"metadata": metadata, "spec": _pod_spec(template.get("spec"))}
    return {**_pick(pod_set, ("name", "count")), "template": kept}


def _slice_spec(spec: object) -> Json:
    """A cut GPU has a hundred devices with a score of attributes each."""
    trimmed = dict(_mapping(spec))
    devices = trimmed.get("devices")
    if isinstance(devices, list):
        trimmed["devices"] = [_device(device) for device in devices]
    return trimmed


def _device(device: object) -> object:
    trimmed = dict(_mapping(device))
    if isinstance(trimmed.get("basic"), Mapping):
        trimmed["basic"] = _device(trimmed["basic"])
    attributes = trimmed.get("attributes")
    if isinstance(attributes, Mapping):
        trimmed["attributes"] = {
            name: value
            for name, value in attributes.items()
            if str(name).rpartition("/")[2] in DEVICE_ATTRIBUTES
        }
    return trimmed


def _pod_spec(spec: object) -> Json:
    trimmed = _pick(spec, POD_SPEC)
    for group in ("containers", "initContainers"):
        containers = _mapping(spec).get(group)
        if isinstance(containers, list):
            trimmed[group] = [_pick(container, CONTAINER) for container in containers]
    return trimmed


def _pick(found: object, keys: tuple[str, ...]) -> Json:
    source = _mapping(found)
    return {key: source[key] for key in keys if key in source}


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
