"""The last question before each eviction: would its owner bear the loss, does anything protect the pod now,
is it still offered where the policy wants that, may anything be evicted there at all?

The preflight asked the same, but a rollout, a scale-down or an annotation may have come or gone since.
Costs two or three small requests for each eviction. What the step itself looks at (the pod's place, its hold,
room) is in its module.
"""

from __future__ import annotations

from typing import Any

from apps.executions.checks.owners import why_owner_bears_no_loss
from apps.executions.context import Context, is_late
from apps.executions.decisions import Decision, blocked, stop
from apps.executions.models import Step
from apps.executions.sightings import uid
from apps.kube.gateway import DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICASETS, STATEFULSETS, Json, Kind
from apps.kube.translate import build_snapshot
from apps.planner.inventory import Pod, Tie
from apps.planner.movability import INTERACTIVE, is_interactive
from apps.planner.protecting import why_not_offered
from apps.planner.snapshot import Snapshot
from apps.planner.waiving import lift

OWNERS: dict[str, Kind] = {"ReplicaSet": REPLICASETS, "StatefulSet": STATEFULSETS, "Job": JOBS}
NOT_EVICTED = "Cancel this execution and ask for a new plan; this pod was not evicted."


def why_not_leave(
    context: Context, step: Step, *, shadow: str = "", only_offered: bool = False
) -> Decision | None:
    """What is to be recorded instead of the eviction; None if it may go out. Raises KubeError: what cannot
    be read forbids.

    shadow: why the cluster is in shadow now, "" where it is not. only_offered: the policy moves no others.
    """
    params = step.params
    if shadow:
        return stop(f"Pod {params['pod']} must not be moved now: {shadow}.", NOT_EVICTED, cause="protected")
    raw = context.gateway.get_object(PODS, params["name"], namespace=params["namespace"])
    if raw is None or uid(raw) != params["uid"]:
        return None  # gone meanwhile: the next look tells, and its UID guards the request
    owners = _owners_of(context, raw)
    seen = _picture(context, raw, owners)
    pod = seen.pods[params["uid"]]
    protected = why_protected_now(pod, params.get("waived", ()))
    if not protected and only_offered:
        protected = why_not_offered(pod)
    if protected:
        return stop(
            f"Pod {params['pod']} must not be moved now: {protected}.", NOT_EVICTED, cause="protected"
        )
    owner = seen.workloads.get(pod.workload)
    running = sum(_replicas(one) for kind, one in owners if kind != DEPLOYMENTS)
    name = f"{pod.owner_kind} {pod.namespace}/{seen.workload_name(pod)}"
    why = why_owner_bears_no_loss(owner, seen.workloads, name, running)
    if not why:
        return None
    if is_late(step, context.now):
        return stop(f"The deadline of this step has passed. {why}", NOT_EVICTED, cause="owner-busy")
    advice = "It goes on by itself when the owner has settled; or cancel. This pod was not evicted."
    return blocked(why, advice, cause="owner-busy", retry_seconds=0)


def why_protected_now(pod: Pod, waived: list[str] | tuple[str, ...]) -> str:
    """The first protection that no waiver of the approved plan lifts, "" if there is none."""
    left = lift(pod, waived)
    reasons = list(left.protections)
    if is_interactive(left) and Tie.MAY_BE_INTERRUPTED not in left.ties:
        reasons.append(INTERACTIVE[:1].lower() + INTERACTIVE[1:].rstrip("."))
    return reasons[0] if reasons else ""


def _owners_of(context: Context, pod: Json) -> list[tuple[Kind, Json]]:
    """Its controller, and a ReplicaSet's Deployment, as they are now."""
    found = _owner_of(context, pod)
    if found is None:
        return []
    above = _owner_of(context, found[1]) if found[0] == REPLICASETS else None
    return [found, *([above] if above is not None else [])]


def _owner_of(context: Context, thing: Json) -> tuple[Kind, Json] | None:
    metadata = thing.get("metadata") or {}
    for one in metadata.get("ownerReferences") or []:
        kind = {**OWNERS, "Deployment": DEPLOYMENTS}.get(str(one.get("kind")))
        if one.get("controller") and kind is not None:
            named = _named(context, kind, str(one.get("name")), str(metadata.get("namespace")))
            return next(((kind, owner) for owner in named if uid(owner) == one.get("uid")), None)
    return None


def _named(context: Context, kind: Kind, name: str, namespace: str | None) -> list[Json]:
    """By a LIST: the right to list is there anyway."""
    return context.gateway.list_objects(kind, namespace=namespace, field_selector=f"metadata.name={name}")


def _picture(context: Context, pod: Json, owners: list[tuple[Kind, Json]]) -> Snapshot:
    objects: dict[Kind, Any] = {PODS: [pod]}
    objects[NAMESPACES] = _named(context, NAMESPACES, pod["metadata"]["namespace"], None)
    for kind, owner in owners:
        objects.setdefault(kind, []).append(owner)
    return build_snapshot("", objects, 0.0)


def _replicas(owner: Json) -> int:
    found = (owner.get("status") or {}).get("replicas")
    return found if isinstance(found, int) else 0
