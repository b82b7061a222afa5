"""Who asks which queue for what: Kueue's Workloads; gangs and pods of KAI, Volcano and elastic quotas.

A claim stands for one waiting workload, with pods or (Kueue makes them once it has admitted it) without. Not
in here: whether a queue would grant it (quota).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.planner.inventory import Gang, Pod
from apps.planner.queues import Admission, Controller, Queue, QueuedWorkload
from apps.planner.resources import is_device_resource
from apps.planner.snapshot import Snapshot

KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
KAI_LABEL = "kai.scheduler/queue"
VOLCANO_LABELS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
KAI_API, VOLCANO_API = "scheduling.run.ai", "scheduling.volcano.sh"
VOLCANO_SCHEDULER = "volcano"
MOST_UNBORN = 512
LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """key: of the waiting workload. sets: (how many, one of these pods). gang: whose it is, None of a pod
    alone. queued: Kueue's object, None elsewhere. named: the queue as it is named; queue: None where there is
    no such queue."""

    key: str
    named: str
    controller: Controller
    queue: Queue | None
    sets: tuple[tuple[int, Pod], ...]
    priority: int
    created_at: float
    gang: Gang | None = None
    queued: QueuedWorkload | None = None

    @property
    def asks(self) -> dict[str, float]:
        """All its sets together."""
        total: dict[str, float] = {}
        for count, pod in self.sets:
            for name, amount in amounts_of(pod).items():
                total[name] = total.get(name, 0.0) + count * amount
        return total


def amounts_of(pod: Pod) -> dict[str, float]:
    """What one pod takes of a queue's quota: a share of a GPU counts as its part."""
    return {
        name: amount * pod.gpu_milli / 1000 if is_device_resource(name) else float(amount)
        for name, amount in pod.requests.items()
    }


class Claims:
    """Finds the claim behind pods that wait. Made for one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._by_owner = {uid: one for one in snapshot.queued.values() for uid in one.owners}
        # The pods that it would have are its own as well.
        self._elastic: dict[str, Queue] = {}
        for queue in snapshot.queues.values():
            if queue.controller is Controller.SCHEDULER_PLUGINS:
                self._elastic.setdefault(queue.namespace, queue)
        self._by_owner |= {wish.pod.uid: one for one in snapshot.queued.values() for wish in one.pod_sets}

    def queued_for(self, pod: Pod) -> QueuedWorkload | None:
        """Kueue's object of the pod, or of whatever owns it in the end."""
        uid = pod.uid if pod.uid in self._by_owner else pod.workload
        for _ in range(LONGEST_CHAIN):
            if uid in self._by_owner:
                return self._by_owner[uid]
            owner = self.snapshot.workloads.get(uid)
            if owner is None:
                return None
            uid = owner.parent
        return None

    def claim_of(self, key: str, pods: Sequence[Pod]) -> Claim | None:
        """Of pods that wait together; None where no queue has a say."""
        queued = self.queued_for(pods[0])
        if queued is not None:
            return self.claim_by(queued, key)
        return self._of_kai(key, pods) or self._of_volcano(key, pods) or self._of_elastic(key, pods)

    def claim_by(self, queued: QueuedWorkload, key: str) -> Claim:
        entrance = self.snapshot.entrances.get(queued.entrance)
        named = queued.queue or (entrance.queue if entrance else "")
        return Claim(
            key=key,
            named=named.partition("/")[2] or queued.entrance,
            controller=Controller.KUEUE,
            queue=self.snapshot.queues.get(named),
            sets=tuple((one.count, one.pod) for one in queued.pod_sets),
            priority=queued.priority,
            created_at=queued.created_at,
            queued=queued,
        )

    def unborn(self, waiting_pods: Sequence[Pod]) -> Iterator[tuple[QueuedWorkload, tuple[Pod, ...]]]:
        """What waits for admission and has no pods that wait, with the pods that it would have."""
        born = {found.uid for pod in waiting_pods if (found := self.queued_for(pod)) is not None}
        for one in self.snapshot.queued.values():
            if one.uid in born or one.state in (Admission.ADMITTED, Admission.FINISHED):
                continue
            pods = tuple(_make_pods(one))
            if pods:
                yield one, pods

    def _of_kai(self, key: str, pods: Sequence[Pod]) -> Claim | None:
        gang = self.snapshot.gangs.get(key)
        named = gang.queue if gang is not None and gang.api_version.startswith(KAI_API) else ""
        named = named or pods[0].labels.get(KAI_LABEL, "")
        return self._claim(key, named, Controller.KAI, gang, pods) if named else None

    def _of_volcano(self, key: str, pods: Sequence[Pod]) -> Claim | None:
        gang = self.snapshot.gangs.get(key)
        if gang is not None and gang.api_version.startswith(VOLCANO_API):
            return self._claim(key, gang.queue or "default", Controller.VOLCANO, gang, pods)
        named = next((pods[0].labels[one] for one in VOLCANO_LABELS if pods[0].labels.get(one)), "")
        is_volcanos = pods[0].scheduler == VOLCANO_SCHEDULER
        return self._claim(key, named, Controller.VOLCANO, gang, pods) if named and is_volcanos else None

    def _of_elastic(self, key: str, pods: Sequence[Pod]) -> Claim | None:
        space = pods[0].namespace
        queue = self._elastic.get(space)
        if queue is None:
            return None
        # Its plugin looks at one pod at a time.
        return self._claim(key, f"{space}/{queue.name}", queue.controller, None, pods[:1])

    def _claim(
        self, key: str, named: str, controller: Controller, gang: Gang | None, pods: Sequence[Pod]
    ) -> Claim:
        return Claim(
            key=key,
            named=named,
            controller=controller,
            queue=self.snapshot.queues.get(f"{controller}/{named}"),
            sets=tuple((1, pod) for pod in pods[: self._needed(gang, pods)]),
            priority=max(pod.priority for pod in pods),
            created_at=min(pod.created_at for pod in pods),
            gang=gang,
        )

    def _needed(self, gang: Gang | None, pods: Sequence[Pod]) -> int:
        """How many must be granted together: to its minimum, else one."""
        if gang is None:
            return len(pods)
        return max(1, gang.min_members - self.snapshot.running_members[gang.key])


def _make_pods(queued: QueuedWorkload) -> Iterator[Pod]:
    left = MOST_UNBORN
    for one in queued.pod_sets:
        for _ in range(min(one.count, left)):
            yield one.pod
        left -= min(one.count, left)
