"""What the scheduler learns from watches: keeps its cache and queue in step with the cluster.

Also decides which change may help pods that wait. Not here: scheduling decisions.
"""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import BUDGETS, NAMESPACES, NODES, PODS
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import is_terminal, is_terminating, labels_of, node_of, uid_of
from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts, SchedulerCache
from apps.simulator.controllers.scheduler.queue import QueuedPod, SchedulingQueue

Json = dict[str, Any]

SCHEDULER_NAME = "default-scheduler"
_FLUSH_SECONDS = 300.0
_ERROR_SECONDS = 0.5


class Intake:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.cache = SchedulerCache()
        self.queue = SchedulingQueue(context.pace)
        self._pods = context.informers.store(PODS)
        self._nodes = context.informers.store(NODES)
        self._budgets = context.informers.store(BUDGETS)
        self._namespaces = context.informers.store(NAMESPACES)
        self._changed: set[str] = set()

    def start(self) -> None:
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)
        self._flush()

    def budgets(self) -> list[Json]:
        return list(self._budgets.objects.values())

    def namespace_labels(self) -> dict[str, Json]:
        return {name: labels_of(each) for name, each in self._namespaces.objects.items()}

    def try_again_later(self, entry: QueuedPod) -> None:
        """After a failed binding: back to the queue when the pod is still there and unbound."""
        asyncio.get_running_loop().call_later(_ERROR_SECONDS, self._requeue, entry.pod.uid)

    def _requeue(self, uid: str) -> None:
        known = self._pods.by_uid.get(uid)
        if known and self._is_ours(known) and not node_of(known) and uid not in self.queue:
            self.queue.add(PodFacts(known))

    def _flush(self) -> None:
        """No pod waits for ever because a change was misjudged."""
        self.queue.wake_where()
        delay = self.context.pace.seconds(_FLUSH_SECONDS)
        asyncio.get_running_loop().call_later(delay, self._flush)

    def _on_node(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.kind == "DELETED":
            self.cache.remove_node(name)
            return
        if change.before is None or _facts_of_node(change.before) != _facts_of_node(change.object):
            self.cache.set_node(change.object)
            node = self.cache.nodes[name]
            self.queue.wake_where(lambda pod: _is_concerned(pod) or _could_hold(node, pod))

    def _on_pod(self, change: Change) -> None:
        pod = change.object
        if change.kind == "DELETED" or is_terminal(pod):
            self._drop(uid_of(pod))
        elif node_of(pod):
            self._on_bound(change)
        elif self._is_ours(pod):
            self._on_waiting(change)
        else:
            self.queue.remove(uid_of(pod))
            # A gated pod's nomination counts only once it is seen to change: a scheduler that
            # starts anew does not register it.
            if change.kind == "MODIFIED" or not pod["spec"].get("schedulingGates"):
                self._note_nomination(PodFacts(pod), change)

    def _drop(self, uid: str) -> None:
        """A pod is gone or finished: its room, bound or nominated, is free for others."""
        self.queue.remove(uid)
        self.cache.assumed.discard(uid)
        for name in (self.cache.place_of(uid), self.cache.nominated_node(uid)):
            self._changed.update([name] if name else [])
        self.cache.take_out(uid)
        self.cache.forget_nomination(uid)
        self._wake_changed()

    def _wake_changed(self) -> None:
        nodes = [self.cache.nodes[name] for name in self._changed if name in self.cache.nodes]
        self._changed.clear()
        if nodes:
            self.queue.wake_where(
                lambda pod: _is_concerned(pod) or any(_has_room(node, pod) for node in nodes)
            )

    def _on_bound(self, change: Change) -> None:
        pod = change.object
        uid = uid_of(pod)
        self.queue.remove(uid)
        self.cache.assumed.discard(uid)
        nominated = self.cache.nominated_node(uid)
        self.cache.forget_nomination(uid)
        is_new = self.cache.place_of(uid) != node_of(pod)
        if is_new or change.before is None or _facts_of_pod(change.before) != _facts_of_pod(pod):
            self.cache.put(PodFacts(pod), node_of(pod))
            self.queue.wake_where(_is_concerned)
        if nominated and nominated != node_of(pod):
            self._changed.add(nominated)
            self._wake_changed()

    def _on_waiting(self, change: Change) -> None:
        pod = PodFacts(change.object)
        if pod.uid in self.cache.assumed:
            return
        self._note_nomination(pod, change)
        if pod.uid not in self.queue:
            self.queue.add(pod)
            return
        self.queue.refresh(pod)
        if change.before is None or _facts_of_pod(change.before) != _facts_of_pod(change.object):
            self.queue.wake(pod.uid)

    def _note_nomination(self, pod: PodFacts, change: Change) -> None:
        """Follows the object; a nomination of our own that is not written yet stays."""
        known = self.cache.nominated_node(pod.uid)
        written_before = PodFacts(change.before).nominated if change.before else ""
        if not pod.nominated and not written_before:
            self.cache.nominate(pod, known)
            return
        self.cache.nominate(pod, pod.nominated)
        if known and known != pod.nominated:
            self._changed.add(known)
            self._wake_changed()

    @staticmethod
    def _is_ours(pod: Json) -> bool:
        spec = pod["spec"]
        return (
            (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME
            and not spec.get("schedulingGates")
            and not is_terminating(pod)
        )


def _is_concerned(pod: PodFacts) -> bool:
    """Pods anywhere may matter to it, not only the room of one node."""
    return bool(pod.spread or pod.affinity_terms or pod.anti_affinity_terms)


def _has_room(node: NodeFacts, pod: PodFacts) -> bool:
    return all(amount <= node.allocatable[name] - node.used[name] for name, amount in pod.requests.items())


def _could_hold(node: NodeFacts, pod: PodFacts) -> bool:
    """Were it empty; a pod that may preempt can make room."""
    return all(amount <= node.allocatable[name] for name, amount in pod.requests.items())


def _facts_of_node(node: Json) -> tuple[Any, ...]:
    spec = node["spec"]
    allocatable = (node.get("status") or {}).get("allocatable")
    return labels_of(node), spec.get("taints"), spec.get("unschedulable"), allocatable


def _facts_of_pod(pod: Json) -> tuple[Any, ...]:
    return pod["spec"], labels_of(pod), is_terminating(pod)
