"""One Pod object becomes one `inventory.Pod`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.allocated import read_devices
from apps.kube.translate.demand import read_demand
from apps.kube.translate.placement import (
    read_host_ports,
    read_node_terms,
    read_pod_terms,
    read_spread,
    read_tolerations,
)
from apps.kube.translate.protections import CHECKPOINTED, MOVABLE, read_protections, read_ties
from apps.kube.translate.shapes import by_shape
from apps.kube.translate.values import (
    Warn,
    brief,
    child,
    clean,
    entries,
    seconds_of,
    texts,
    whole,
    whole_or_none,
)
from apps.planner.inventory import HeldDevice, LinkClass, NodeTerm, Pod, Tie

LINK = "defrag.gpu.internal/link"
STEERING = "defrag.gpu.internal/migration"
HOLD = "defrag.gpu.internal/hold"
SERVICE = "defrag.gpu.internal/service"
ENVIRONMENT = "defrag.gpu.internal/environment"
EXPECTED = "defrag.gpu.internal/expected-seconds"
LONGEST_SECONDS = 10 * 366 * 86_400
MOST_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod takes from the objects around it.

    protections: of its namespace and workload. gang: key or "". pinned: a volume of it binds its place.
    devices, claims, claim_wishes: by resource claims, as on `inventory.Pod`.
    offered: its namespace lets it move.
    """

    protections: tuple[str, ...] = ()
    gang: str = ""
    pinned: bool = False
    volume_terms: tuple[tuple[NodeTerm, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    devices: tuple[HeldDevice, ...] = ()
    claims: tuple[str, ...] = ()
    claim_wishes: tuple[str, ...] = ()
    offered: bool = False


def controller_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The owner reference of the controller, {} for a bare object."""
    for owner in entries(metadata, "ownerReferences"):
        if owner.get("controller") is True:
            return owner
    return {}


def read_pod(raw: Mapping[str, Any], surroundings: Surroundings) -> Pod:
    warnings: list[str] = []
    warn = warnings.append
    metadata, spec, status = child(raw, "metadata"), child(raw, "spec"), child(raw, "status")
    labels, annotations = texts(child(metadata, "labels")), texts(child(metadata, "annotations"))
    namespace = clean(metadata.get("namespace"), 253)
    owner = controller_of(metadata)
    demand = read_demand(spec, namespace, labels, annotations, warn)
    devices = (*surroundings.devices, *read_devices(spec, annotations, warn))
    return Pod(
        uid=clean(metadata.get("uid"), 100),
        namespace=namespace,
        name=clean(metadata.get("name"), 253),
        labels=labels,
        terminating=metadata.get("deletionTimestamp") is not None,
        created_at=seconds_of(metadata.get("creationTimestamp")) or 0.0,
        requests=demand.requests,
        gpu_milli=demand.gpu_milli,
        gpu_memory_mib=demand.gpu_memory_mib,
        reservation=demand.reservation,
        devices=devices,
        workload=clean(owner.get("uid"), 100),
        owner_kind=clean(owner.get("kind"), 100),
        node_name=clean(spec.get("nodeName"), 253),
        **_of_what_keeps_it(labels, annotations, spec, owner, surroundings),
        **_of_surroundings(surroundings),
        **_of_spec(spec, warn),
        **_of_status(status),
        **_of_our_names(labels, annotations, warn),
        warnings=(*warnings, *surroundings.warnings)[:MOST_WARNINGS],
    )


def _of_what_keeps_it(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: Mapping[str, Any],
    owner: Mapping[str, Any],
    surroundings: Surroundings,
) -> dict[str, Any]:
    """Why nobody may move it without a waiver."""
    controller = (clean(owner.get("kind"), 100), clean(owner.get("name"), 253))
    return {
        "protections": read_protections(
            labels=labels,
            annotations=annotations,
            spec=spec,
            owner=controller,
            priority=whole(spec.get("priority")),
            inherited=surroundings.protections,
        ),
        "ties": (
            *read_ties(annotations=annotations, spec=spec, owner=controller),
            *([Tie.OFFERED] if surroundings.offered or annotations.get(MOVABLE) == "true" else []),
        ),
    }


def _of_surroundings(surroundings: Surroundings) -> dict[str, Any]:
    """What other objects tell of it."""
    return {
        "claims": surroundings.claims,
        "claim_wishes": surroundings.claim_wishes,
        "gang": surroundings.gang,
        "volumes_pin_node": surroundings.pinned,
        "volume_terms": surroundings.volume_terms,
    }


@by_shape
def _of_spec(spec: Mapping[str, Any], warn: Warn) -> dict[str, Any]:
    """How and where it is to run."""
    return {
        "node_selector": texts(child(spec, "nodeSelector")),
        "node_terms": read_node_terms(spec),
        "pod_affinity": read_pod_terms(spec, "podAffinity", warn),
        "pod_anti_affinity": read_pod_terms(spec, "podAntiAffinity", warn),
        "spread": read_spread(spec),
        "host_ports": read_host_ports(spec),
        "tolerations": read_tolerations(spec),
        "priority": whole(spec.get("priority")),
        "priority_class": clean(spec.get("priorityClassName"), 253),
        "preemption_policy": clean(spec.get("preemptionPolicy"), 40) or "PreemptLowerPriority",
        "scheduler": clean(spec.get("schedulerName"), 253) or "default-scheduler",
        "gates": tuple(clean(gate.get("name"), 320) for gate in entries(spec, "schedulingGates")),
        "grace_seconds": whole(spec.get("terminationGracePeriodSeconds"), 30),
        "most_seconds": whole_or_none(spec.get("activeDeadlineSeconds")),
        "image": clean(next(iter(entries(spec, "containers")), {}).get("image"), 300),
    }


def _of_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """How it fares."""
    phase, ready = clean(status.get("phase"), 40) or "Pending", _condition(status, "Ready")
    bound, is_ready = _condition(status, "PodScheduled"), ready.get("status") == "True"
    changed = seconds_of(ready.get("lastTransitionTime"))
    return {
        "phase": phase,
        "ready": is_ready,
        "ready_at": changed if is_ready else None,
        # Its containers are done when the pod ceases to be Ready for good.
        "finished_at": changed if phase in ("Succeeded", "Failed") else None,
        "scheduled_at": seconds_of(bound.get("lastTransitionTime"))
        if bound.get("status") == "True"
        else None,
        "nominated_node": clean(status.get("nominatedNodeName"), 253),
        "started_at": seconds_of(status.get("startTime")),
        "unschedulable_message": _unschedulable(status),
    }


def _of_our_names(labels: Mapping[str, str], annotations: Mapping[str, str], warn: Warn) -> dict[str, Any]:
    """What it carries under this project's own prefix."""
    return {
        "link": _link(annotations, warn),
        "steering": annotations.get(STEERING, ""),
        "hold": HOLD in labels,
        "service": labels.get(SERVICE, ""),
        "environment": labels.get(ENVIRONMENT, ""),
        "checkpointed_at": seconds_of(annotations.get(CHECKPOINTED)),
        "expected_seconds": _expected(annotations, warn),
    }


def _expected(annotations: Mapping[str, str], warn: Warn) -> int | None:
    told = annotations.get(EXPECTED)
    if told is None:
        return None
    if told.isascii() and told.isdigit() and len(told) < 12 and 0 < int(told) <= LONGEST_SECONDS:
        return int(told)
    warn(f"its annotation {EXPECTED} {brief(told)!r} is no whole number of seconds from 1 on")
    return None


def _link(annotations: Mapping[str, str], warn: Warn) -> LinkClass | None:
    wish = annotations.get(LINK)
    if wish is None:
        return None
    try:
        found = LinkClass(wish)
    except ValueError:
        found = LinkClass.UNKNOWN
    if found is LinkClass.UNKNOWN:
        warn(f"its annotation {LINK} {brief(wish)!r} is none of nvlink, pcie-switch, numa, node")
        return None
    return found


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    for one in entries(status, "conditions"):
        if one.get("type") == kind:
            return one
    return {}


def _unschedulable(status: Mapping[str, Any]) -> str:
    condition = _condition(status, "PodScheduled")
    return clean(condition.get("message"), 2000) if condition.get("status") == "False" else ""
