"""Which scheduling system beside kube-scheduler has a say about a pod: KAI, Volcano, Koordinator, Kueue, ...

Told by the scheduler's name, by labels, gates and owners, and by the API of the pod's group. What such a
system would do to a moved pod is not known here (`executions.other_schedulers`).
"""

from __future__ import annotations

from enum import StrEnum

from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot

DEFAULT_SCHEDULER = "default-scheduler"
KUEUE_PREFIX = "kueue.x-k8s.io/"
KUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset")


class System(StrEnum):
    """The value is the name that people know it by."""

    KAI = "KAI"
    VOLCANO = "Volcano"
    KOORDINATOR = "Koordinator"
    KUEUE = "Kueue"
    OTHER = "another scheduler"


SCHEDULERS = {
    "kai-scheduler": System.KAI,
    "runai-scheduler": System.KAI,
    "volcano": System.VOLCANO,
    "koord-scheduler": System.KOORDINATOR,
}
GROUP_APIS = {
    "scheduling.run.ai": System.KAI,
    "scheduling.volcano.sh": System.VOLCANO,
    "gang.scheduling.koordinator.sh": System.KOORDINATOR,
}
POD_LABELS = {
    "kai.scheduler/queue": System.KAI,
    "runai/queue": System.KAI,
    "volcano.sh/job-name": System.VOLCANO,
}


def systems_of(snapshot: Snapshot, pod: Pod) -> tuple[System, ...]:
    """All that have a say about it, the scheduler's first; () for a pod of kube-scheduler alone."""
    found: list[System] = []
    if pod.scheduler != DEFAULT_SCHEDULER:
        found.append(SCHEDULERS.get(pod.scheduler, System.OTHER))
    found += [system for label, system in POD_LABELS.items() if label in pod.labels]
    gang = snapshot.gangs.get(pod.gang)
    if gang is not None:
        api_group = gang.api_version.partition("/")[0]
        found += [GROUP_APIS[api_group]] if api_group in GROUP_APIS else []
    if _is_queued_by_kueue(snapshot, pod):
        found.append(System.KUEUE)
    return tuple(dict.fromkeys(found))


def _is_queued_by_kueue(snapshot: Snapshot, pod: Pod) -> bool:
    if any(label in pod.labels for label in KUEUE_LABELS):
        return True
    if any(gate.startswith(KUEUE_PREFIX) for gate in pod.gates):
        return True
    owner, seen = snapshot.workloads.get(pod.workload), 0
    while owner is not None and seen < 5:
        if owner.queue:
            return True
        owner, seen = snapshot.workloads.get(owner.parent), seen + 1
    return False
