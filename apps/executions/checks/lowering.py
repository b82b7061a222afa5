"""Whether a template can be changed so that its pods ask for less: may we, does it state what it should?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.executions.checks.looking import Look, Objection
from apps.executions.memory_asks import GPU_REQUEST, find_statements
from apps.executions.sightings import uid
from apps.executions.steps.lower_memory import KINDS, as_kind, belonging, naming, running_of
from apps.kube.gateway import PODS, REPLICASETS
from apps.planner.plan import Lowering

Json = dict[str, Any]


def check_lowerings(look: Look) -> Iterator[Objection]:
    for one in look.plan.lowerings:
        kind = KINDS[one.owner_kind]
        namespace = one.owner.partition("/")[0]
        if not look.rights.may("patch", kind, namespace=namespace):
            yield Objection(
                f"The console's credential may not patch {kind.plural} in {namespace}: apply "
                "deploy/rbac/fallback.yaml."
            )
            continue
        yield from (Objection(f"{one.owner_kind} {one.owner}: {why}") for why in _why_not(look, one))


def _why_not(look: Look, one: Lowering) -> Iterator[str]:
    namespace, _, name = one.owner.partition("/")
    owner = look.gateway.get_object(KINDS[one.owner_kind], name, namespace=namespace)
    is_request = one.owner_kind == GPU_REQUEST
    owner = as_kind(owner) if is_request else owner
    if owner is None or uid(owner) != one.owner_uid:
        yield "it is gone or was made anew."
        return
    stated = find_statements(owner, one.resource)
    if len(stated) != 1:
        where = "in no place" if not stated else f"in {len(stated)} places"
        yield f"its template states the GPU memory {where} that is known here: have its owner lower it."
    elif stated[0].amounts != {one.before}:
        told = ", ".join(str(value) for value in stated[0].raw.values())
        yield f"its template asks for {told}, not for {one.before} as its pods do."
    yield from tell_held_back(owner)
    pods = look.gateway.list_objects(PODS, namespace=namespace).objects
    sets = [] if is_request else look.gateway.list_objects(REPLICASETS, namespace=namespace).objects
    running = running_of(naming(name, pods) if is_request else belonging(one.owner_uid, sets, pods))
    if running:
        yield f"its pod {running[0]} has a node by now."


def tell_held_back(owner: Json) -> Iterator[str]:
    """Pure. Why its waiting pods would stay as they are, though its template says less."""
    spec = owner.get("spec") or {}
    if spec.get("paused"):
        yield "it is paused, so its waiting pods would stay as they are: have its owner resume it."
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    if partition := rolling.get("partition"):
        yield f"its updates leave out pods below number {partition} (partition), which would ask for as much."
