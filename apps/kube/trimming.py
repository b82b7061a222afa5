"""Cuts API objects down to what `translate` reads, before they are kept.

Most of an object is of no use here (managed fields, images, probes), and container environments may
hold secrets, which must not lie in this program's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.gateway import CLAIMS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, VOLUMES, Json, Kind

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
CONTAINER = ("name", "resources", "ports", "restartPolicy")
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
    "overhead",
    "resources",
    "resourceClaims",
    "volumes",
)
POD_STATUS = ("phase", "conditions", "startTime", "nominatedNodeName")
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
        trimmed["spec"] = _pick(raw.get("spec"), ("taints", "unschedulable"))
        trimmed["status"] = _pick(raw.get("status"), NODE_STATUS)
    elif kind in (CLAIMS, VOLUMES):
        trimmed["spec"] = _pick(raw.get("spec"), ("volumeName", "nodeAffinity"))
    elif kind not in (NAMESPACES, PRIORITY_CLASSES):
        trimmed["spec"] = {
            key: value for key, value in _mapping(raw.get("spec")).items() if key != "template"
        }
        trimmed["status"] = raw.get("status")
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
