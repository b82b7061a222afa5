"""What a pod takes from the objects around it: protection, gang, volumes that bind its place.

Kept apart from reading the pod itself, so that a change around it re-reads only the pods it touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.kube.translate.claims import pod_claim_names
from apps.kube.translate.device_book import NOTHING, DeviceBook
from apps.kube.translate.groups import Renamed, group_named_by, native_group
from apps.kube.translate.pods import Surroundings, controller_of
from apps.kube.translate.protections import PROTECT
from apps.kube.translate.values import child, clean, entries
from apps.planner.inventory import NodeTerm, Workload

GANG = "defrag.gpu.internal/gang"
LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Ties:
    """What a pod itself says of its surroundings. owner: (kind, name, uid) of its controller.

    group_api: API group of the object that `group` names. claims: of volumes. device_claims: of devices, as
    `pod_claim_names` gives them.
    """

    namespace: str
    owner: tuple[str, str, str]
    uid: str = ""
    group: str = ""
    group_api: str = ""
    wants_gang: bool = False
    claims: tuple[str, ...] = ()
    device_claims: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Around:
    """The objects that pods refer to.

    pinned_claims: of keys "namespace/claim" whose volume is bound to a place, the node terms that say where;
    None if volumes cannot be read.
    job_gangs: uids of Jobs whose own annotation makes their pods a gang. renamed: see `groups`.
    book: devices by resource claims.
    """

    protected_namespaces: frozenset[str] = frozenset()
    offered_namespaces: frozenset[str] = frozenset()
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    pinned_claims: Mapping[str, tuple[NodeTerm, ...]] | None = None
    job_gangs: frozenset[str] = frozenset()
    renamed: Renamed = field(default_factory=dict)
    book: DeviceBook = NOTHING


def read_ties(raw: Mapping[str, Any]) -> Ties:
    metadata = child(raw, "metadata")
    labels, annotations = child(metadata, "labels"), child(metadata, "annotations")
    owner = controller_of(metadata)
    spec = child(raw, "spec")
    group, group_api = group_named_by(labels, annotations)
    if not group:
        group, group_api = native_group(spec)
    claims = [
        clean(child(volume, "persistentVolumeClaim").get("claimName"), 253)
        for volume in entries(spec, "volumes")
        if "persistentVolumeClaim" in volume
    ]
    return Ties(
        namespace=clean(metadata.get("namespace"), 253),
        owner=(clean(owner.get("kind"), 100), clean(owner.get("name"), 253), clean(owner.get("uid"), 100)),
        uid=clean(metadata.get("uid"), 100),
        group=group,
        group_api=group_api,
        wants_gang=annotations.get(GANG) == "true",
        claims=tuple(claim for claim in claims if claim),
        device_claims=pod_claim_names(spec, child(raw, "status")),
    )


def surroundings_of(ties: Ties, around: Around) -> Surroundings:
    pinned, warnings = _pinned(ties, around)
    claims, wishes = _claims(ties, around.book)
    return Surroundings(
        protections=_protections(ties, around),
        offered=ties.namespace in around.offered_namespaces,
        gang=gang_of(ties, around),
        pinned=pinned,
        volume_terms=_volume_terms(ties, around),
        warnings=warnings,
        devices=around.book.held.get(ties.uid, ()),
        claims=claims,
        claim_wishes=wishes,
    )


def _claims(ties: Ties, book: DeviceBook) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not ties.device_claims:
        return book.used.get(ties.uid, ()), ()
    return book.claims_of(ties.namespace, ties.uid, ties.device_claims)


def gang_of(ties: Ties, around: Around) -> str:
    """The key of the pod's gang, "" without one."""
    if ties.group:
        key = f"{ties.namespace}/{ties.group}"
        return around.renamed.get((ties.group_api, key), key)
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


def _volume_terms(ties: Ties, around: Around) -> tuple[tuple[NodeTerm, ...], ...]:
    bound = around.pinned_claims or {}
    keys = [f"{ties.namespace}/{claim}" for claim in ties.claims] if bound else []
    return tuple(bound[key] for key in keys if key in bound)
