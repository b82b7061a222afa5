"""The checker's own reading of a change that lets waiting pods ask for less GPU memory.

Shares nothing with who offers it (fallback): owners are followed, and amounts read, anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.planner.inventory import Pod
from apps.planner.plan import Goal, Lowering, Plan
from apps.planner.snapshot import Snapshot

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
    owner = snapshot.workloads.get(one.owner_uid)
    if owner is None or (owner.kind, f"{owner.namespace}/{owner.name}") != (one.owner_kind, one.owner):
        yield "it is not the owner that is there"
        return
    if owner.kind not in KINDS:
        yield f"the template of a {owner.kind} is not to be changed"
    if not 0 < one.after_mib < one.before_mib or not 0 < one.after < one.before:
        yield f"{one.after_mib} MiB is not less than {one.before_mib} MiB, or nothing"
    theirs = [pod for pod in snapshot.pods.values() if _belongs(snapshot, pod, one.owner_uid)]
    if any(pod.node_name and pod.phase not in ("Succeeded", "Failed") for pod in theirs):
        yield "a pod of it runs"
    waiting = {pod.uid for pod in theirs if not pod.node_name and pod.phase == "Pending"}
    if not set(one.pod_uids) <= waiting:
        yield "a pod of the plan does not wait"
    for pod in theirs:
        asked = pod.requests.get(one.resource) if one.resource else pod.gpu_memory_mib
        if pod.uid in one.pod_uids and asked != one.before:
            yield f"{pod.key} does not ask for {one.before}"


def _belongs(snapshot: Snapshot, pod: Pod, uid: str) -> bool:
    owner = snapshot.workloads.get(pod.workload)
    for _ in range(5):
        if owner is None or owner.uid == uid:
            break
        owner = snapshot.workloads.get(owner.parent)
    return owner is not None and owner.uid == uid
