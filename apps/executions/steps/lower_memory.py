"""Step ``lower_memory``: the pods of one owner, none of which runs, ask for less GPU memory.

One PATCH of its template, guarded by UID and resourceVersion, that changes one amount. A Deployment then
makes its waiting pods anew by itself; those of the other owners are evicted by UID and resourceVersion, each
only while it has no node: nothing is interrupted. Undone by the exact earlier value, unless a pod runs by
then, which that would restart. Not in here: who is offered less (planner.fallback), where a template states
it (memory_asks).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait
from apps.executions.memory_asks import GPU_REQUEST, Statement, patch_of, the_statement, with_amount
from apps.executions.models import Step
from apps.executions.sightings import is_finished, is_leaving, label, name, node_of, owner_uid, uid, version
from apps.kube.gateway import DEPLOYMENTS, GPU_REQUESTS, PODS, REPLICASETS, STATEFULSETS

Json = dict[str, Any]
KINDS = {
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFULSETS,
    "ReplicaSet": REPLICASETS,
    GPU_REQUEST: GPU_REQUESTS,
}
REQUEST_LABEL = "defrag.gpu.internal/request"
CHANGED, RUNS = "owner-changed", "owner-runs"


@dataclass(frozen=True)
class Facts:
    """owner: the object whose template it is, None if it is gone. pods: all that belong to it, also by way of
    its ReplicaSets."""

    owner: Json | None
    pods: tuple[Json, ...] = ()


def observe(context: Context, step: Step) -> Facts:
    params = step.params
    space, gateway = params["namespace"], context.gateway
    owner = gateway.get_object(KINDS[params["owner_kind"]], params["name"], namespace=space, fresh=True)
    pods = gateway.list_objects(PODS, namespace=space, fresh=True)
    if params["owner_kind"] == GPU_REQUEST:
        return Facts(as_kind(owner), tuple(naming(params["name"], pods)))
    sets = gateway.list_objects(REPLICASETS, namespace=space, fresh=True)
    return Facts(owner, tuple(belonging(params["uid"], sets, pods)))


def as_kind(request: Json | None) -> Json | None:
    """A GPURequest that says what it is; objects of a list do not."""
    return {**request, "kind": GPU_REQUEST} if request is not None else None


def naming(request: str, pods: Iterable[Json]) -> list[Json]:
    """Pods of one namespace that name the GPURequest."""
    return [pod for pod in pods if label(pod, REQUEST_LABEL) == request]


def belonging(owner: str, sets: Iterable[Json], pods: Iterable[Json]) -> list[Json]:
    """Pods of the owner with that UID, its own and those of its ReplicaSets."""
    uids = {owner, *(uid(one) for one in sets if owner_uid(one) == owner)}
    return [pod for pod in pods if owner_uid(pod) in uids]


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    params, sent = step.params, step.observed.get("sent", [])
    owner, stated, problem = _read(step, facts)
    if problem or owner is None or stated is None:
        return _tell_changed(problem)
    if stated.amounts == {params["after"]}:
        if "lower" not in sent:
            return moot(f"{params['owner']} asks for {params['after_mib']:,} MiB already")
        return _decide_renewing(step, facts)
    if stated.amounts != {params["before"]}:
        return _tell_changed(f"{params['owner']} asks for {_told(stated)} now, not for {params['before']}.")
    if "lower" in sent and step.issued_at is not None:
        return _tell_changed(f"Somebody set {params['owner']} back to {params['before_mib']:,} MiB.")
    running = running_of(facts.pods)
    if running:
        return stop(
            f"Pod {params['namespace']}/{running[0]} of {params['owner']} has a node by now: a change of the "
            "template would restart it. Nothing was changed.",
            "Cancel this execution. If other pods still wait, they get a plan of their own.",
            cause=RUNS,
        )
    return act(
        "lower",
        f"{params['owner']} asks for {params['after_mib']:,} MiB of GPU memory instead of "
        f"{params['before_mib']:,}",
        seen={"earlier": dict(stated.raw)},
        owner=owner,
        stated=stated,
    )


def _decide_renewing(step: Step, facts: Facts) -> Decision:
    """Pods that wait with the earlier request, where their owner makes none anew while they do."""
    params, told = step.params, f"{step.params['owner']} asks for {step.params['after_mib']:,} MiB"
    if params["owner_kind"] != GPU_REQUEST:
        told += _tell_caught(facts, params)
    if not params["renews"]:
        by_itself = "" if params["owner_kind"] == GPU_REQUEST else "; it makes its waiting pods anew"
        return done(f"{told}{by_itself}")
    waiting = [pod for pod in facts.pods if uid(pod) in params["pods"] and not node_of(pod)]
    leaving = [pod for pod in waiting if is_leaving(pod)]
    staying = [pod for pod in waiting if not is_leaving(pod) and not is_finished(pod)]
    if staying:
        what = f"{params['namespace']}/{name(staying[0])}"
        return act("renew", f"evict {what}, which waits with the earlier request", pod=staying[0])
    return wait("the pods with the earlier request are ending") if leaving else done(told)


def _tell_caught(facts: Facts, params: Json) -> str:
    """No guard of the API covers both objects: a pod may get a node between the look and the patch."""
    caught = [name(pod) for pod in facts.pods if uid(pod) in params["pods"] and node_of(pod)]
    if not caught:
        return ""
    return f". Pod {min(caught)} got a node right before, with the earlier request: its owner restarts it"


def decide_undo(step: Step, facts: Facts) -> Decision:
    params = step.params
    if "lower" not in step.observed.get("sent", []):
        return done("nothing was changed")
    owner, stated, problem = _read(step, facts)
    if problem or owner is None or stated is None:
        return moot(f"Nothing is set back: {problem}")
    earlier = step.observed.get("seen", {}).get("earlier", {})
    if dict(stated.raw) == earlier:
        return done(f"{params['owner']} asks for what it did")
    if stated.amounts != {params["after"]}:
        return moot(f"{params['owner']} asks for {_told(stated)} by now: that stays as it is")
    running = running_of(facts.pods)
    if running:
        return moot(
            f"{params['owner']} stays at {params['after_mib']:,} MiB: {running[0]} has a node by now, and "
            "setting it back would restart it"
        )
    return act(
        "restore", f"{params['owner']} asks for what it did", owner=owner, stated=stated, earlier=earlier
    )


def apply(context: Context, step: Step, decision: Decision) -> None:
    params, told = step.params, decision.arguments
    if decision.effect == "renew":
        pod = told["pod"]
        # As it was seen: one that got a node meanwhile is not this pod's eviction any more.
        context.gateway.evict_pod(params["namespace"], name(pod), uid=uid(pod), version=version(pod))
        return
    stated: Statement = told["stated"]
    values = with_amount(stated, params["after"]) if decision.effect == "lower" else told["earlier"]
    patch = patch_of(told["owner"], stated, values)
    kind = KINDS[params["owner_kind"]]
    is_template = params["owner_kind"] != GPU_REQUEST  # own kinds take no strategic patch
    context.gateway.patch_object(
        kind, params["name"], patch, namespace=params["namespace"], strategic=is_template
    )


def running_of(pods: Iterable[Json]) -> list[str]:
    """Names of those that hold a node."""
    return sorted(name(pod) for pod in pods if node_of(pod) and not is_finished(pod))


def _read(step: Step, facts: Facts) -> tuple[Json | None, Statement | None, str]:
    """The owner, where it states its request, and why it is not the one that was approved."""
    params, owner = step.params, facts.owner
    if owner is None or uid(owner) != params["uid"] or is_leaving(owner):
        return None, None, f"{params['owner']} is gone or was made anew."
    stated = the_statement(owner, params["resource"])
    if stated is None:
        return owner, None, f"{params['owner']} no longer states its GPU memory in one place."
    return owner, stated, ""


def _tell_changed(problem: str) -> Decision:
    return stop(problem, "Cancel this execution and ask for a new plan, or talk to its owner.", cause=CHANGED)


def _told(stated: Statement) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in stated.raw.values()))
