"""What a pod takes from the objects around it: protection, gang, volumes that bind its place.

Kept apart from reading the pod itself, so that a change around it re-reads only the pods it touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.kube.translate.pods import Surroundings, controller_of
from apps.kube.translate.protections import PROTECT
from apps.kube.translate.values import child, clean, entries
from apps.planner.inventory import Workload

POD_GROUP = "scheduling.x-k8s.io/pod-group"
GANG = "defrag.gpu.internal/gang"
OTHER_GROUPS = ("pod-group-name", "scheduling.k8s.io/group-name")
LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Ties:
    """What a pod itself says of its surroundings. owner: (kind, name, uid) of its controller."""

    namespace: str
    owner: tuple[str, str, str]
    group: str = ""
    wants_gang: bool = False
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """The objects that pods refer to.

    pinned_claims: keys "namespace/claim" whose volume is bound to a place; None if volumes cannot be read.
    job_gangs: uids of Jobs whose own annotation makes their pods a gang.
    """

    protected_namespaces: frozenset[str] = frozenset()
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    pinned_claims: frozenset[str] | None = None
    job_gangs: frozenset[str] = frozenset()


def read_ties(raw: Mapping[str, Any]) -> Ties:
    metadata = child(raw, "metadata")
    labels, annotations = child(metadata, "labels"), child(metadata, "annotations")
    owner = controller_of(metadata)
    groups = [labels.get(POD_GROUP), *(annotations.get(key) for key in OTHER_GROUPS)]
    claims = (
        clean(child(volume, "persistentVolumeClaim").get("claimName"), 253)
        for volume in entries(child(raw, "spec"), "volumes")
    )
    return Ties(
        namespace=clean(metadata.get("namespace"), 253),
        owner=(clean(owner.get("kind"), 100), clean(owner.get("name"), 253), clean(owner.get("uid"), 100)),
        group=next((clean(group, 253) for group in groups if isinstance(group, str) and group), ""),
        wants_gang=annotations.get(GANG) == "true",
        claims=tuple(claim for claim in claims if claim),
    )


def surroundings_of(ties: Ties, around: Around) -> Surroundings:
    pinned, warnings = _pinned(ties, around)
    return Surroundings(_protections(ties, around), gang_of(ties, around), pinned, warnings)


def gang_of(ties: Ties, around: Around) -> str:
    """The key of the pod's gang, "" without one."""
    if ties.group:
        return f"{ties.namespace}/{ties.group}"
    kind, name, uid = ties.owner
    if kind != "Job" or not (ties.wants_gang or uid in around.job_gangs):
        return ""
    job = around.workloads.get(uid)
    return f"{ties.namespace}/{name}" if job and (job.replicas or 0) > 1 else ""


def _protections(ties: Ties, around: Around) -> tuple[str, ...]:
    found = []
    if ties.namespace in around.protected_namespaces:
        found.append(f"the annotation {PROTECT} of its namespace {ties.namespace} is true")
    uid = ties.owner[2]
    for _ in range(LONGEST_CHAIN):
        workload = around.workloads.get(uid)
        if workload is None:
            break
        if workload.protected:
            found.append(f"the annotation {PROTECT} of its {workload.kind} {workload.name} is true")
        uid = workload.parent
    return tuple(found)


def _pinned(ties: Ties, around: Around) -> tuple[bool, tuple[str, ...]]:
    if not ties.claims:
        return False, ()
    if around.pinned_claims is None:
        return True, ("its volumes could not be read: it is taken to be bound to its node",)
    return any(f"{ties.namespace}/{claim}" in around.pinned_claims for claim in ties.claims), ()
