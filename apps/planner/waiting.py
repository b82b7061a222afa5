"""What waits for a node, and why: normalised reasons, counts per node, one sentence.

A waiting workload is a gang or a single pod. Not in here: the sentences (waiting_words), what to do about
it (defrag), in which order it would be fair to start what waits (queue_order).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apps.planner.claims_on_queues import Claims
from apps.planner.fitting import Fitting
from apps.planner.gpu_wishes import BAD_REQUEST, request_of, tell_request, why_not_honoured
from apps.planner.inventory import Pod
from apps.planner.mig.nodes import asked_profiles
from apps.planner.never import Never, NeverTable
from apps.planner.node_verdicts import NodeTable, Verdict
from apps.planner.queues import QueuedWorkload
from apps.planner.quota import Refused, judge_queues
from apps.planner.rooms import Rooms, free_room
from apps.planner.scheduler_words import NOTHING_SAID, Saying, compare, saying_of
from apps.planner.snapshot import Snapshot
from apps.planner.tenants import queue_named_for
from apps.planner.waiting_words import say_why


@dataclass(frozen=True, slots=True)
class WaitingWorkload:
    """key: gang key or pod key "namespace/name". pods: uids of those that wait, in their order.

    since: when the first of them was created. node_counts: reason -> number of nodes (a node may
    have several reasons). free_gpus: on the nodes it may run on at all; best_node_free: most
    free GPUs on one of them; free_elsewhere: on the other nodes.
    profiles: MIG instances that one of its pods asks for. queue: that its pods, its gang or
    its owner name.
    first: nodes by kind of reason as kube-scheduler would count them (scheduler_words); saying: what its own
    scheduler said last; differs: where both differ, and why, "" where they agree.
    never: no node of the cluster could run it even if all were empty; then the sentence says why.
    gpu_wish: what its GPURequest asks of each GPU ("20,000 MiB of A100"), "" without one.
    has_pods: False where a queue has not admitted it and nobody has made its pods: then `pods` are made up,
    one for each that it asks for, and stand in no snapshot. is_for_good: waiting alone changes nothing.
    """

    key: str
    display: str
    namespace: str
    pods: tuple[str, ...]
    gpus_per_pod: int
    link: str
    since: float
    priority: int
    reason_code: str
    sentence: str
    node_counts: Mapping[str, int] = field(default_factory=dict)
    free_gpus: int = 0
    free_elsewhere: int = 0
    best_node: str = ""
    best_node_free: int = 0
    model: str = ""
    nodes_that_fit: int = 0
    profiles: Mapping[str, int] = field(default_factory=dict)
    queue: str = ""
    never: bool = False
    first: Mapping[str, int] = field(default_factory=dict)
    saying: Saying = NOTHING_SAID
    differs: str = ""
    gpu_wish: str = ""
    has_pods: bool = True
    is_for_good: bool = False

    @property
    def pod_count(self) -> int:
        return len(self.pods)

    @property
    def gpus(self) -> int:
        return self.gpus_per_pod * len(self.pods)


def group_pending(snapshot: Snapshot) -> tuple[tuple[str, tuple[Pod, ...]], ...]:
    """The pending pods by gang (or alone), in the order of the queue: priority, then age."""
    groups: dict[str, list[Pod]] = {}
    for pod in snapshot.pending_pods:
        groups.setdefault(pod.gang or pod.key, []).append(pod)
    return tuple((key, tuple(pods)) for key, pods in groups.items())


def explain_pending(
    snapshot: Snapshot, only: str | None = None, rooms: Rooms | None = None
) -> tuple[WaitingWorkload, ...]:
    """Everything that waits, in the order of the queue, each with its reason. only: one workload's key.

    rooms: as the snapshot tells them, if the caller has them already; they are left as they are.
    """
    rooms = rooms or free_room(snapshot)
    fitting = Fitting(rooms)
    table, never = NodeTable(fitting), NeverTable(fitting)
    judged: dict[tuple[object, ...], Verdict] = {}
    groups, unborn = list_waiting(snapshot)
    refused = judge_queues(snapshot, groups.items())
    return tuple(
        _named_by_its_queue(
            _explain(
                snapshot,
                rooms,
                fitting,
                key,
                pods,
                _judge(table, pods, judged),
                never.judge(key, pods),
                refused.get(key),
            ),
            unborn.get(key),
        )
        for key, pods in groups.items()
        if only is None or key == only
    )


def list_waiting(
    snapshot: Snapshot,
) -> tuple[dict[str, tuple[Pod, ...]], dict[str, QueuedWorkload]]:
    """Everything that waits, by key in the order of the queue: pods, then what has none before a queue admits
    it, with the pods that it would have; and of these the object that asks for them, by the same key."""
    groups = dict(group_pending(snapshot))
    unborn: dict[str, QueuedWorkload] = {}
    for queued, pods in Claims(snapshot).unborn(snapshot.pending_pods):
        key = f"{queued.namespace}/{queued.owner_name or queued.key.partition('/')[2]}"
        key = queued.key if key in groups else key
        groups[key], unborn[key] = pods, queued
    if unborn:
        order = {key: (-max(p.priority for p in pods), pods[0].created_at) for key, pods in groups.items()}
        groups = {key: groups[key] for key in sorted(groups, key=lambda key: (*order[key], key))}
    return groups, unborn


def _judge(table: NodeTable, pods: tuple[Pod, ...], judged: dict[tuple[object, ...], Verdict]) -> Verdict:
    """By the largest member; pods of one shape get one answer."""
    fitting = table.fitting
    pod = max(pods, key=lambda one: fitting.rooms.demand(one).gpus)
    shape = (fitting.rooms.demand(pod), fitting.signature(pod))
    if fitting.needs_neighbours(pod):
        return table.judge(pod)
    if shape not in judged:
        judged[shape] = table.judge(pod)
    return judged[shape]


def _explain(
    snapshot: Snapshot,
    rooms: Rooms,
    fitting: Fitting,
    key: str,
    pods: tuple[Pod, ...],
    verdict: Verdict,
    never: Never | None,
    refused: Refused | None,
) -> WaitingWorkload:
    pod = max(pods, key=lambda one: rooms.demand(one).gpus)
    saying = saying_of(pods, snapshot.gangs.get(pod.gang))
    told = never or refused or _refuse_request(snapshot, pods)
    why = (told.code, told.sentence) if told else say_why(snapshot, rooms, fitting, key, pods, verdict)
    return WaitingWorkload(
        key=key,
        display=snapshot.workload_name(pod),
        namespace=pod.namespace,
        pods=tuple(one.uid for one in pods),
        gpus_per_pod=rooms.demand(pod).gpus,
        link=str(pod.link or ""),
        since=min(one.created_at for one in pods),
        priority=max(one.priority for one in pods),
        reason_code=why[0],
        sentence=why[1],
        node_counts=dict(sorted(verdict.counts.items(), key=lambda entry: (-entry[1], entry[0]))),
        **_free_gpus(verdict),
        model=verdict.models.most_common(1)[0][0] if len(verdict.models) == 1 else "",
        nodes_that_fit=len(verdict.fits),
        queue=queue_named_for(snapshot, pod),
        gpu_wish=tell_request(request_of(snapshot, pod)),
        never=never is not None,
        first=dict(verdict.first),
        saying=saying,
        differs=compare(saying, verdict.first, len(snapshot.nodes), len(verdict.fits)),
        profiles=max((asked_profiles(one) for one in pods), key=lambda asked: sum(asked.values())),
        is_for_good=refused is not None and refused.is_for_good,
    )


def _free_gpus(verdict: Verdict) -> dict[str, Any]:
    return {
        "free_gpus": verdict.free_gpus,
        "free_elsewhere": verdict.free_elsewhere,
        "best_node": verdict.best_node,
        "best_node_free": verdict.best_free,
    }


def _refuse_request(snapshot: Snapshot, pods: tuple[Pod, ...]) -> Refused | None:
    said = next(filter(None, (why_not_honoured(snapshot, pod) for pod in pods)), "")
    return Refused(BAD_REQUEST, said, is_for_good=True) if said else None


def _named_by_its_queue(found: WaitingWorkload, unborn: QueuedWorkload | None) -> WaitingWorkload:
    """What has no pods yet is known by the object that asks for them."""
    if unborn is None:
        return found
    name = unborn.owner_name or found.display
    return replace(found, display=name, queue=unborn.entrance.partition("/")[2], has_pods=False)
