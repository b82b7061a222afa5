"""The checker's own reading of a change that lets waiting pods ask for less GPU memory.

Shares nothing with who offers it (fallback): owners are followed, and amounts read, anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.planner.inventory import Pod
from apps.planner.plan import Goal, Lowering, Plan
from apps.planner.snapshot import Snapshot

REQUEST, LABEL = "GPURequest", "defrag.gpu.internal/request"
KINDS = ("Deployment", "StatefulSet", "ReplicaSet")


def lowering_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    if not plan.lowerings:
        return []
    faults = []
    if plan.goal is not Goal.LOWER_MEMORY or plan.moves or plan.preemptions or plan.reconfigurations:
        faults.append("a plan that lowers what is asked for does nothing else")
    if len({one.owner_uid for one in plan.lowerings}) < len(plan.lowerings):
        faults.append("one owner is changed twice")
    for one in plan.lowerings:
        faults += [f"{one.owner}: {fault}" for fault in _faults(snapshot, one)]
    return faults


def _faults(snapshot: Snapshot, one: Lowering) -> Iterator[str]:
    if not _is_there(snapshot, one):
        yield "it is not the owner that is there"
        return
    if one.owner_kind not in (*KINDS, REQUEST):
        yield f"the template of a {one.owner_kind} is not to be changed"
    if not 0 < one.after_mib < one.before_mib or not 0 < one.after < one.before:
        yield f"{one.after_mib} MiB is not less than {one.before_mib} MiB, or nothing"
    theirs = [pod for pod in snapshot.pods.values() if _is_of(snapshot, pod, one)]
    if any(pod.node_name and pod.phase not in ("Succeeded", "Failed") for pod in theirs):
        yield "a pod of it runs"
    waiting = {pod.uid for pod in theirs if not pod.node_name and pod.phase == "Pending"}
    if not set(one.pod_uids) <= waiting:
        yield "a pod of the plan does not wait"
    for pod in theirs:
        asked = pod.requests.get(one.resource) if one.resource else pod.gpu_memory_mib
        if one.owner_kind == REQUEST:
            asked = snapshot.gpu_requests[one.owner].memory_mib
        if pod.uid in one.pod_uids and asked != one.before:
            yield f"{pod.key} does not ask for {one.before}"


def _is_there(snapshot: Snapshot, one: Lowering) -> bool:
    if one.owner_kind == REQUEST:
        request = snapshot.gpu_requests.get(one.owner)
        return request is not None and request.uid == one.owner_uid
    owner = snapshot.workloads.get(one.owner_uid)
    return owner is not None and (owner.kind, f"{owner.namespace}/{owner.name}") == (
        one.owner_kind,
        one.owner,
    )


def _is_of(snapshot: Snapshot, pod: Pod, one: Lowering) -> bool:
    if one.owner_kind == REQUEST:
        return f"{pod.namespace}/{pod.labels.get(LABEL, '')}" == one.owner
    return _belongs(snapshot, pod, one.owner_uid)


def _belongs(snapshot: Snapshot, pod: Pod, uid: str) -> bool:
    owner = snapshot.workloads.get(pod.workload)
    for _ in range(5):
        if owner is None or owner.uid == uid:
            break
        owner = snapshot.workloads.get(owner.parent)
    return owner is not None and owner.uid == uid
