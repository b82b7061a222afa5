"""Less GPU memory for what has waited long: what may be offered to whom, why not, and what it would change.

A template is changed only where none of its owner's pods runs, since a change makes all of them anew. Not in
here: how a template states its memory (executions.memory_asks), who approves the change (plans).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from apps.planner.defrag import plan_unlock
from apps.planner.gpu_wishes import REQUEST_LABEL, request_of
from apps.planner.inventory import Node, Pod, Workload
from apps.planner.movability import DEFAULT_SCHEDULER
from apps.planner.plan import Goal, Lowering, Plan, Refusal
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import group_pending

Deadline = Callable[[], bool]
OwnedPods = Mapping[str, Sequence[Pod]]
"""By the uid of their controller and of what made that; those that name a GPURequest also by its key."""
GPUSHARE = "aliyun.com/gpu-mem"
"""Counted in GiB or in MiB, as its device plugin was told; a node's own numbers say which."""
GPU_REQUEST = "GPURequest"
"""Our own kind: what it states is changed in itself, and its pods stay as they are."""
ROLLED_OUT = ("Deployment",)
"""Owners that make their pods anew by themselves when their template changes, also those that wait."""
RENEWED = ("StatefulSet", "ReplicaSet")
CHANGED = (*ROLLED_OUT, *RENEWED)
GIB_MIB = 1024


@dataclass(frozen=True, slots=True)
class FallbackLimits:
    """after_seconds: that it must have waited. above_mib: what it must ask for more than. step_mib: how much
    less is offered at a time."""

    after_seconds: float = 300.0
    above_mib: int = 4000
    step_mib: int = 1000


USUAL_LIMITS = FallbackLimits()


@dataclass(frozen=True, slots=True)
class MemoryAsk:
    """resource: by which it is asked, "" where it is stated in MiB. amount: of that; mib: all of it."""

    resource: str
    amount: int
    mib: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that has waited long and asks for much. why_not: one sentence, "" where less is offered;
    then there is an owner and `after`."""

    key: str
    pods: tuple[Pod, ...]
    waited_seconds: float
    ask: MemoryAsk
    owner: Workload | None = None
    after: MemoryAsk | None = None
    why_not: str = ""


def list_candidates(snapshot: Snapshot, limits: FallbackLimits = USUAL_LIMITS) -> tuple[Candidate, ...]:
    """In the order of the queue; of one owner's pods the first stands for all."""
    found: list[Candidate] = []
    owners: set[str] = set()
    owned = pods_by_owner(snapshot)
    for key, pods in group_pending(snapshot):
        ask = ask_of(snapshot, pods[0])
        waited = snapshot.taken_at - min(pod.created_at for pod in pods)
        if ask is None or ask.mib <= limits.above_mib or waited <= limits.after_seconds:
            continue
        owner, _ = _owner_of(snapshot, pods[0], owned)
        if owner is not None and owner.uid in owners:
            continue
        owners |= {owner.uid} if owner is not None else set()
        found.append(_judge(snapshot, Candidate(key, pods, waited, ask), limits, owned))
    return tuple(found)


def plan_lowering(
    snapshot: Snapshot, workload: str, *, limits: FallbackLimits = USUAL_LIMITS, deadline: Deadline
) -> Plan:
    """The change for one waiting workload ("namespace/name"), with its effect; or why there is none."""
    pods = dict(group_pending(snapshot)).get(workload)
    if pods is None:
        return _refuse(workload, "No pending workload has this name.")
    ask = ask_of(snapshot, pods[0])
    if ask is None:
        return _refuse(workload, "It asks for no GPU memory in MiB, so there is none to lower.")
    waited = snapshot.taken_at - min(pod.created_at for pod in pods)
    if waited <= limits.after_seconds:
        return _refuse(
            workload, f"It has waited for {waited:.0f} s; less is offered after {limits.after_seconds:.0f} s."
        )
    if ask.mib <= limits.above_mib:
        return _refuse(
            workload, f"It asks for {ask.mib:,} MiB; less is offered above {limits.above_mib:,} MiB only."
        )
    found = _judge(snapshot, Candidate(workload, pods, waited, ask), limits, pods_by_owner(snapshot))
    if found.why_not or found.owner is None or found.after is None:
        return _refuse(workload, found.why_not)
    lowering = describe(snapshot, found, deadline)
    return Plan(Goal.LOWER_MEMORY, lowerings=(lowering,), proven_optimal=True, sentence=lowering.reason)


def ask_of(snapshot: Snapshot, pod: Pod) -> MemoryAsk | None:
    """GPU memory of one device that the pod asks for; None where it asks for none by itself."""
    request = request_of(snapshot, pod)
    if request is not None and request.memory_mib:
        return MemoryAsk("", request.memory_mib, request.memory_mib)
    amount = pod.requests.get(GPUSHARE, 0)
    if amount > 0:
        return MemoryAsk(GPUSHARE, amount, amount * _mib_per_unit(snapshot.nodes.values()))
    if pod.gpu_memory_mib:
        return MemoryAsk("", pod.gpu_memory_mib, pod.gpu_memory_mib)
    return None


def describe(snapshot: Snapshot, found: Candidate, deadline: Deadline) -> Lowering:
    """found: one that is offered less."""
    owner, after = found.owner, found.after
    assert owner is not None
    assert after is not None
    waiting = pods_of(pods_by_owner(snapshot), owner, lambda pod: pod.is_pending)
    starts = _starting(snapshot, owner, waiting, after, deadline)
    nodes = tuple(sorted(set(starts.values())))
    return Lowering(
        order=1,
        workload=found.key,
        owner_kind=owner.kind,
        owner=f"{owner.namespace}/{owner.name}",
        owner_uid=owner.uid,
        pods=tuple(pod.key for pod in waiting),
        pod_uids=tuple(pod.uid for pod in waiting),
        resource=after.resource,
        before=found.ask.amount,
        after=after.amount,
        before_mib=found.ask.mib,
        after_mib=after.mib,
        renews=owner.kind in RENEWED,
        starts=len(starts),
        nodes=nodes,
        reason=_say(len(waiting), starts, found.ask.mib, after.mib, is_late=deadline()),
    )


def pods_by_owner(snapshot: Snapshot) -> OwnedPods:
    """Gone through once for all owners, since thousands may wait."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods.values():
        owner = snapshot.workloads.get(pod.workload)
        for uid in {pod.workload, owner.parent if owner is not None else ""} - {""}:
            found[uid].append(pod)
        if named := pod.labels.get(REQUEST_LABEL):
            found[f"{GPU_REQUEST} {pod.namespace}/{named}"].append(pod)
    return found


def pods_of(owned: OwnedPods, owner: Workload, wanted: Callable[[Pod], bool]) -> list[Pod]:
    """Pods of an owner, also by way of its ReplicaSets, or that name this GPURequest; in a fixed order."""
    key = f"{GPU_REQUEST} {owner.namespace}/{owner.name}" if owner.kind == GPU_REQUEST else owner.uid
    found = [pod for pod in owned.get(key, ()) if wanted(pod)]
    return sorted(found, key=lambda pod: (pod.created_at, pod.uid))


def _judge(snapshot: Snapshot, one: Candidate, limits: FallbackLimits, owned: OwnedPods) -> Candidate:
    owner, why_not = _owner_of(snapshot, one.pods[0], owned)
    if owner is None:
        return replace(one, why_not=why_not)
    running = pods_of(owned, owner, lambda pod: pod.is_holding)
    if running:
        return replace(
            one,
            owner=owner,
            why_not=f"{running[0].key} of the same {owner.kind} runs, and "
            f"{'goes by it too' if owner.kind == GPU_REQUEST else 'would be restarted'}.",
        )
    asks = {ask_of(snapshot, pod) for pod in pods_of(owned, owner, lambda pod: pod.is_pending)}
    if len(asks) > 1:
        return replace(
            one, owner=owner, why_not=f"Pods of {owner.kind} {owner.name} ask for different amounts."
        )
    after = _less(one.ask, limits.step_mib)
    if after.mib <= 0:
        return replace(one, owner=owner, why_not="Nothing would be left of what it asks for.")
    return replace(one, owner=owner, after=after)


def _owner_of(snapshot: Snapshot, pod: Pod, owned: OwnedPods) -> tuple[Workload | None, str]:
    """Whose template states what the pod asks for; or why none is to be changed."""
    request = request_of(snapshot, pod)
    if request is not None and request.memory_mib:
        namespace, _, name = request.key.partition("/")
        return Workload(request.uid, GPU_REQUEST, namespace, name), ""
    if not pod.workload:
        return None, "It has no owner that would make it anew with another request."
    if pod.owner_kind == "Job":
        return (
            None,
            "It belongs to a Job, whose template is immutable: make the Job anew with a smaller request.",
        )
    owner = snapshot.workloads.get(pod.workload)
    seen: set[str] = set()
    while owner is not None and owner.parent and owner.uid not in seen:
        seen.add(owner.uid)
        above = snapshot.workloads.get(owner.parent)
        if above is None:
            return None, f"{owner.kind} {owner.name} is made by something else, which would set it back."
        owner = above
    if owner is None:
        return None, f"Its {pod.owner_kind} is not known here."
    if owner.kind not in CHANGED:
        return None, f"It belongs to {owner.kind} {owner.name}, whose template is not changed from here."
    if owner.updating and owner.kind in ROLLED_OUT and pods_of(owned, owner, lambda one: one.is_holding):
        return None, f"{owner.kind} {owner.name} is in the middle of a rollout."
    return owner, ""


def _less(ask: MemoryAsk, step_mib: int) -> MemoryAsk:
    """At least that much less, in whole units of what it is asked by."""
    unit = max(ask.mib // max(ask.amount, 1), 1)
    amount = ask.amount - ceil(step_mib / unit)
    return MemoryAsk(ask.resource, amount, amount * unit)


def _mib_per_unit(nodes: Iterable[Node]) -> int:
    """What one unit of GPUSHARE is here: a node offers as many as its cards have GiB, or MiB."""
    for node in nodes:
        offered = node.capacity.get(GPUSHARE, 0)
        whole = sum(gpu.memory_mib or 0 for gpu in node.gpus)
        if offered and whole:
            return GIB_MIB if whole // offered > GIB_MIB // 2 else 1
    return GIB_MIB


def _starting(
    snapshot: Snapshot, owner: Workload, waiting: Sequence[Pod], after: MemoryAsk, deadline: Deadline
) -> dict[str, str]:
    """Pod key -> node: who would start if all of them asked for that, no others came, and nobody moved."""
    if owner.kind == GPU_REQUEST:
        key = f"{owner.namespace}/{owner.name}"
        lower = replace(snapshot.gpu_requests[key], memory_mib=after.mib)
        snapshot = replace(snapshot, gpu_requests={**snapshot.gpu_requests, key: lower})
        asking = {pod.uid: replace(pod, scheduler=DEFAULT_SCHEDULER) for pod in waiting}
    else:
        asking = {pod.uid: _asking(pod, after) for pod in waiting}
    others = {uid: pod for uid, pod in snapshot.pods.items() if not pod.is_pending}
    alone = replace(snapshot, pods={**others, **asking})
    plan = plan_unlock(alone, workload=None, max_moves=0, deadline=deadline)
    return {one.pod: one.node for one in plan.hand_overs}


def _asking(pod: Pod, after: MemoryAsk) -> Pod:
    """The pod with the other request. Where it would fit is asked, whichever scheduler binds it."""
    if after.resource:
        pod = replace(pod, requests={**pod.requests, after.resource: after.amount})
    else:
        pod = replace(pod, gpu_memory_mib=after.mib)
    return replace(pod, scheduler=DEFAULT_SCHEDULER)


def _say(waiting: int, starts: Mapping[str, str], before: int, after: int, *, is_late: bool) -> str:
    """starts: pod -> node. is_late: there was no time to look to the end."""
    head = f"It asks for {before:,} MiB; with {after:,} MiB"
    if not starts and is_late:
        return f"{head} it might start now: there was no time to find out."
    if not starts:
        return f"{head} it could not start now either."
    nodes = sorted(set(starts.values()))
    where = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    pods = "it" if waiting == 1 else f"{len(starts)} of its {waiting} pods"
    return f"{head} {pods} could start now, on {where}."


def _refuse(workload: str, reason: str) -> Plan:
    return Plan(Goal.LOWER_MEMORY, refused=(Refusal(workload, reason),), sentence=reason)
