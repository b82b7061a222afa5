"""One immutable picture of a cluster, and the look-ups that every rule needs.

Built by `apps.kube.translate` from API objects (live or from a dump), stored by
`apps.clusters`, read by everything that decides or draws. A snapshot never changes;
`with_pods` returns a new one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from apps.planner.inventory import DisruptionBudget, Gang, Node, Pod, Workload
from apps.planner.queues import Entrance, Flavor, GpuRequest, Queue, QueuedWorkload


@dataclass(frozen=True)
class Snapshot:
    """nodes by name; pods, workloads and budgets by uid; gangs by key "namespace/name".

    queues by key "controller/name", flavors by name; entrances, queued and gpu_requests by "namespace/name".

    taken_at: epoch seconds of the newest fact in it. problems: one sentence for each part of
    the cluster that could not be read (no permission, unknown resource), naming the kind by its
    plural; the rest stands.
    """

    cluster: str
    taken_at: float
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    budgets: Mapping[str, DisruptionBudget] = field(default_factory=dict)
    gangs: Mapping[str, Gang] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    queues: Mapping[str, Queue] = field(default_factory=dict)
    entrances: Mapping[str, Entrance] = field(default_factory=dict)
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    queued: Mapping[str, QueuedWorkload] = field(default_factory=dict)
    gpu_requests: Mapping[str, GpuRequest] = field(default_factory=dict)

    @cached_property
    def pods_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods that hold resources, by the name of their node, in a fixed order (uid)."""
        found: dict[str, list[Pod]] = defaultdict(list)
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            if pod.is_holding:
                found[pod.node_name].append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    @cached_property
    def reserving_by_node(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods of a migration under way that have no node yet but whose room is kept on one: paper
        holds and steered replacements, by their nominated node. The scheduler honours them, so do plans."""
        found: dict[str, list[Pod]] = defaultdict(list)
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            if (
                pod.nominated_node
                and not pod.node_name
                and not pod.terminating
                and (pod.hold or pod.steering)
            ):
                found[pod.nominated_node].append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    @cached_property
    def pending_pods(self) -> tuple[Pod, ...]:
        """Pods that wait for a node: by priority, then oldest first, then uid."""
        waiting = [pod for pod in self.pods.values() if pod.is_pending]
        return tuple(sorted(waiting, key=lambda pod: (-pod.priority, pod.created_at, pod.uid)))

    @cached_property
    def running_members(self) -> Counter[str]:
        """Pods that hold resources, by the key of their gang."""
        return Counter(pod.gang for pod in self.pods.values() if pod.gang and pod.is_holding)

    @cached_property
    def _wished_pods(self) -> Mapping[str, Pod]:
        return {wish.pod.uid: wish.pod for queued in self.queued.values() for wish in queued.pod_sets}

    def pod_that_waits(self, uid: str) -> Pod:
        """A pod, or one that a queued workload would have and nobody has made. Raises KeyError."""
        found = self.pods.get(uid)
        return found if found is not None else self._wished_pods[uid]

    def cannot_read(self, plural: str) -> bool:
        """Whether a problem names this kind ("poddisruptionbudgets"): then its absence says nothing."""
        named = re.compile(rf"\b{re.escape(plural)}\b(?!/)")
        return any(named.search(problem) for problem in self.problems)

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        return self.pods_by_node.get(node_name, ())

    def workload_name(self, pod: Pod) -> str:
        """The name a person knows the pod's workload by; the pod's own name for a bare pod."""
        workload = self.workloads.get(pod.workload)
        if workload is None:
            return pod.gang.partition("/")[2] or pod.name
        return workload.display or workload.name

    def with_pods(self, changed: Iterable[Pod]) -> Snapshot:
        """The same cluster with some pods replaced (by uid)."""
        return replace(self, pods={**self.pods, **{pod.uid: pod for pod in changed}})
