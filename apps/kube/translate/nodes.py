"""One Node object becomes one `inventory.Node`.

What depends on the pods that run there is added in `picture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from apps.kube.topology.reading import MOST_GPUS
from apps.kube.translate.annotations import HOLDERS, LONGEST_ANNOTATION, read_holders
from apps.kube.translate.gpus import GpuFacts, Inventory, read_gpu_facts
from apps.kube.translate.values import Warn, child, clean, entries, quantities, seconds_of, texts
from apps.planner.inventory import Holding, Node, Quantities, Taint
from apps.planner.mig.nodes import MIG_PREFIX

CORDON = "defrag.gpu.internal/cordon"
POOL_LABELS = (
    "defrag.gpu.internal/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "agentpool",
)

# Devices of a running pod do not change, holders that are gone are dropped (`picture`), and a GPU pod
# without a holder makes its node's devices unknown to the planner: age alone says little, so it is generous.
HOLDERS_STALE_SECONDS = 24 * 3600.0
MOST_WARNINGS = 20
GPU_FIELDS = tuple(field.name for field in fields(GpuFacts))


@dataclass(frozen=True, slots=True)
class ReadNode:
    """valid_until: from then on the same object reads differently (an annotation goes stale)."""

    node: Node
    valid_until: float | None = None


KURED = ("weave.works/kured-reboot-in-progress",)
"""What kured writes on a node while it drains and reboots it."""


def read_node(raw: Mapping[str, Any], *, taken_at: float) -> ReadNode:
    """taken_at: the moment the facts are judged at, in seconds since the epoch."""
    return inspect_node(raw, taken_at=taken_at)[0]


def inspect_node(raw: Mapping[str, Any], *, taken_at: float) -> tuple[ReadNode, Inventory]:
    """The same, with how its devices were found."""
    warnings: list[str] = []
    metadata, status = child(raw, "metadata"), child(raw, "status")
    labels = texts(child(metadata, "labels"))
    annotations = texts(child(metadata, "annotations"), LONGEST_ANNOTATION)
    capacity = quantities(child(status, "capacity"), warnings.append, "capacity")
    allocatable = quantities(child(status, "allocatable"), warnings.append, "allocatable")
    facts, inventory = read_gpu_facts(
        labels, annotations, _standing(capacity, allocatable), allocatable, warnings.append, taken_at=taken_at
    )
    _warn_of_lost_gpus(facts, capacity, allocatable, warnings.append)
    if not facts.gpus and allocatable.get(facts.gpu_resource, 0) > MOST_GPUS:
        allocatable[facts.gpu_resource] = 0  # nobody believes them, so nothing is planned on them
    holdings, observed_at, valid_until = _holdings(annotations, taken_at, warnings.append)
    created_at = seconds_of(metadata.get("creationTimestamp")) or 0.0
    ends = [end for end in (valid_until, inventory.valid_until) if end is not None]
    node = Node(
        name=clean(metadata.get("name"), 253),
        uid=clean(metadata.get("uid"), 100),
        resource_version=clean(metadata.get("resourceVersion"), 40),
        hostname=labels.get("kubernetes.io/hostname", ""),
        labels=labels,
        taints=_taints(child(raw, "spec")),
        unschedulable=child(raw, "spec").get("unschedulable") is True,
        **_readiness(status, inventory, created_at),
        capacity=capacity,
        allocatable=allocatable,
        **{name: getattr(facts, name) for name in GPU_FIELDS},
        holdings=holdings,
        holdings_observed_at=observed_at,
        pool=next((labels[key] for key in POOL_LABELS if labels.get(key)), ""),
        rack=labels.get("topology.kubernetes.io/rack", ""),
        zone=labels.get("topology.kubernetes.io/zone", ""),
        cordon=annotations.get(CORDON, ""),
        created_at=created_at,
        reboot=next((f"kured reboots it ({key})" for key in KURED if annotations.get(key)), ""),
        warnings=tuple(warnings[:MOST_WARNINGS]),
    )
    return ReadNode(node, min(ends, default=None)), inventory


def _standing(capacity: Quantities, allocatable: Quantities) -> Quantities:
    """What stands in the node. Capacity says it for whole GPUs, healthy or not; for MIG instances it
    goes on naming profiles of earlier layouts, so there what the kubelet offers counts."""
    cut = {name: amount for name, amount in allocatable.items() if name.startswith(MIG_PREFIX)}
    return {**allocatable, **capacity, **cut}


def _readiness(status: Mapping[str, Any], inventory: Inventory, created_at: float) -> dict[str, Any]:
    """The fields of `Node` that say so. A Ready node whose device plugin is gone is stale all the same."""
    told = next((one for one in entries(status, "conditions") if one.get("type") == "Ready"), None)
    if told is None:
        return {"ready": False, "ready_reason": "NeverReported", "stale_since": created_at}
    since = inventory.main_since if inventory.is_main_dead else None
    if told.get("status") == "True":
        stale_since = (created_at if since is None else since) if inventory.is_main_dead else None
        return {"ready": True, "stale_since": stale_since}
    lost_at = seconds_of(told.get("lastTransitionTime"))
    reason = clean(told.get("reason"), 100) or "NotReady"
    return {"ready": False, "ready_reason": reason, "stale_since": created_at if lost_at is None else lost_at}


def _taints(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    return tuple(
        Taint(clean(taint.get("key"), 320), clean(taint.get("value"), 100), clean(taint.get("effect"), 40))
        for taint in entries(spec, "taints")
    )


def _holdings(
    annotations: Mapping[str, str], taken_at: float, warn: Warn
) -> tuple[tuple[Holding, ...] | None, float | None, float | None]:
    """(holdings or None, when observed, when they go stale)."""
    if HOLDERS not in annotations:
        return None, None, None
    found = read_holders(annotations[HOLDERS], warn)
    if found is None:
        return None, None, None
    holdings, observed_at = found
    stale_at = observed_at + HOLDERS_STALE_SECONDS
    if taken_at >= stale_at:
        hours = HOLDERS_STALE_SECONDS / 3600
        warn(f"the annotation {HOLDERS} is older than {hours:g} hours: who holds which GPU is unknown")
        return None, observed_at, None
    return holdings, observed_at, stale_at


def _warn_of_lost_gpus(facts: GpuFacts, capacity: Quantities, allocatable: Quantities, warn: Warn) -> None:
    has, offers = capacity.get(facts.gpu_resource, 0), allocatable.get(facts.gpu_resource, 0)
    if offers < has:
        warn(f"{has - offers} of {has} {facts.gpu_resource} are not offered: unhealthy or lost GPUs")
    elif offers > has:
        warn(f"{offers} {facts.gpu_resource} are offered, but the node has {has}")
    sick = [str(gpu.index) for gpu in facts.gpus if not gpu.healthy]
    if sick:
        warn(f"GPU {', '.join(sick)} is unhealthy")
