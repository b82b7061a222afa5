"""Tells what a piece of an API object is that somebody cut out without its kind: by what stands in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apps.kube.gateway import Json
from apps.kube.translate.gpus import MATRIX
from apps.kube.translate.handshakes import KEY as HANDSHAKE_KEY
from apps.kube.translate.registers import HAMI_KEY, METAX_KEY, VOLCANO_KEY
from apps.kube.translate.values import child, clean
from apps.planner.resources import is_device_resource

UNNAMED = "unnamed"
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
NODE_ANNOTATIONS = (
    VOLCANO_KEY,
    METAX_KEY,
    MATRIX,
    "topology.gpu.internal/holders",
    "volcano.sh/node-vgpu-handshake",
)
NODE_LABELS = (
    "nvidia.com/gpu.",
    "nvidia.com/mig.",
    "amd.com/gpu.",
    "beta.amd.com/gpu.",
    "gpu.intel.com/",
    "metax-tech.com/gpu.",
    "hygon.com/dcu.",
    "aliyun.accelerator/",
    "cloud.google.com/gke-",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/",
    "node.koordinator.sh/",
    "node.kubernetes.io/",
    "feature.node.kubernetes.io/",
    "kubernetes.io/hostname",
)
NOT_LABELS = ("nvidia.com/gpu.shared", "gpu.intel.com/i915", "gpu.intel.com/xe")
DRA = "resource.k8s.io/v1"


def adopt_fragment(raw: Json) -> Json | None:
    """The same with kind and apiVersion, and a name where it needs one; None if nothing tells what it is."""
    return _by_spec(raw) or _by_status(raw) or _by_metadata(raw) or _by_keys(raw)


def _by_spec(raw: Json) -> Json | None:
    spec = child(raw, "spec")
    if "driver" in spec and "pool" in spec:
        return _as(raw, DRA, "ResourceSlice")
    if isinstance(spec.get("containers"), list):
        return _as(raw, "v1", "Pod")
    if isinstance(child(spec, "spec", "devices").get("requests"), list):
        return _as(raw, DRA, "ResourceClaimTemplate")
    if isinstance(child(spec, "devices").get("requests"), list):
        return _as(raw, DRA, "ResourceClaim")
    devices = spec.get("devices")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict) and "minor" in devices[0]:
        return _as(raw, "scheduling.koordinator.sh/v1alpha1", "Device")
    return None


def _by_status(raw: Json) -> Json | None:
    status = child(raw, "status")
    if isinstance(child(status, "allocation").get("devices"), dict):
        return _as(raw, DRA, "ResourceClaim")
    if isinstance(status.get("capacity"), dict) or isinstance(status.get("allocatable"), dict):
        return _as(raw, "v1", "Node")
    if isinstance(raw.get("capacity"), dict) or isinstance(raw.get("allocatable"), dict):
        return _as({"status": raw}, "v1", "Node")
    return None


def _by_metadata(raw: Json) -> Json | None:
    metadata = child(raw, "metadata") or raw
    annotations, labels = child(metadata, "annotations"), child(metadata, "labels")
    if PARTITIONS in annotations:
        return _as({"metadata": dict(metadata)}, "scheduling.koordinator.sh/v1alpha1", "Device")
    if _are_of_a_node(annotations) or _are_of_a_node(labels):
        return _as({**raw, "metadata": dict(metadata)}, "v1", "Node")
    return None


def _by_keys(raw: Json) -> Json | None:
    """A bare map: annotations, labels, amounts, or the value of Koordinator's partition annotation."""
    if raw and all(str(key).isdecimal() and isinstance(value, list) for key, value in raw.items()):
        metadata = {"name": UNNAMED, "annotations": {PARTITIONS: json.dumps(raw)}}
        return _as({"metadata": metadata}, "scheduling.koordinator.sh/v1alpha1", "Device")
    if PARTITIONS in raw:
        return _as({"metadata": {"annotations": raw}}, "scheduling.koordinator.sh/v1alpha1", "Device")
    if _are_of_a_node(raw):
        return _as({"metadata": {"annotations": raw, "labels": raw}}, "v1", "Node")
    if raw and any(is_device_resource(str(key)) for key in raw) and _are_amounts(raw):
        return _as({"status": {"capacity": raw, "allocatable": raw}}, "v1", "Node")
    return None


def _are_of_a_node(found: Mapping[str, Any]) -> bool:
    return any(
        HAMI_KEY.match(key)
        or HANDSHAKE_KEY.match(key)
        or key in NODE_ANNOTATIONS
        or key.startswith(NODE_LABELS)
        for key, value in found.items()
        if isinstance(key, str) and isinstance(value, str) and key not in NOT_LABELS
    )


def _are_amounts(raw: Json) -> bool:
    return all(isinstance(value, str | int) and not isinstance(value, bool) for value in raw.values())


def _as(raw: Json, version: str, kind: str) -> Json:
    metadata = dict(child(raw, "metadata"))
    metadata["name"] = clean(metadata.get("name"), 253) or UNNAMED
    return {**raw, "apiVersion": version, "kind": kind, "metadata": metadata}
