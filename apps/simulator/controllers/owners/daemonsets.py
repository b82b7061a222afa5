"""The DaemonSet controller: one pod on every node that takes it."""

from __future__ import annotations

from typing import Any

from apps.simulator.client import DAEMON_SETS, NODES
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import (
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    labels_of,
    node_of,
)
from apps.simulator.controllers.owners.pod_owner import PodOwner, make_pod
from apps.simulator.controllers.selectors import find_untolerated, matches_node

Json = dict[str, Any]

_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSets(PodOwner):
    name = "daemonset"
    resource = DAEMON_SETS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = context.informers.store(NODES)

    def subscribe(self) -> None:
        super().subscribe()
        self.nodes.subscribe(self._on_node)

    def _on_node(self, change: Change) -> None:
        before = change.before
        if before and change.kind == "MODIFIED" and _facts(before) == _facts(change.object):
            return
        for owner in self.owners.objects.values():
            self.enqueue(key_of(owner))

    async def sync(self, key: str) -> None:
        owner = self.owners.get(key)
        if owner is None or is_terminating(owner):
            return
        by_node: dict[str, list[Json]] = {}
        for pod in self.pods_of(owner):
            by_node.setdefault(_target_of(pod), []).append(pod)
        wanted = 0
        for name, node in list(self.nodes.objects.items()):
            pods = by_node.pop(name, [])
            should_run, should_stay = _belongs(owner, node)
            wanted += should_run
            if should_run and not pods:
                await self.create_pod(owner, _pod_for(owner, name))
            for pod in pods:
                ended = is_terminal(pod) or not should_stay
                if ended and not is_terminating(pod):
                    await self.delete_pod(owner, pod)
        await self._count(owner, wanted)

    async def _count(self, owner: Json, wanted: int) -> None:
        pods = [pod for pod in self.pods_of(owner) if not is_terminating(pod) and not is_terminal(pod)]
        ready = sum(1 for pod in pods if is_ready(pod))
        await self.write_status(
            owner,
            {
                "desiredNumberScheduled": wanted,
                "currentNumberScheduled": len(pods),
                "updatedNumberScheduled": len(pods),
                "numberReady": ready,
                "numberAvailable": ready or None,
                "numberUnavailable": max(0, wanted - ready) or None,
                "numberMisscheduled": 0,
                "observedGeneration": owner["metadata"].get("generation", 1),
            },
        )


def _pod_for(owner: Json, node: str) -> Json:
    body = make_pod(owner, DAEMON_SETS, owner["spec"]["template"])
    spec = body["spec"]
    spec["tolerations"] = [*(spec.get("tolerations") or []), *_TOLERATIONS]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms = (affinity.get(_AFFINITY) or {}).get("nodeSelectorTerms") or [{}]
    affinity[_AFFINITY] = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
    return body


def _belongs(owner: Json, node: Json) -> tuple[bool, bool]:
    """(should run here, may stay here)."""
    spec = owner["spec"]["template"]["spec"]
    name = node["metadata"]["name"]
    if not matches_node(spec, name, labels_of(node)):
        return False, False
    tolerant = {"tolerations": [*(spec.get("tolerations") or []), *_TOLERATIONS]}
    taints = node["spec"].get("taints") or []
    runs = find_untolerated(tolerant, taints, ("NoSchedule", "NoExecute")) is None
    return runs, find_untolerated(tolerant, taints, ("NoExecute",)) is None


def _target_of(pod: Json) -> str:
    if node_of(pod):
        return node_of(pod)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_AFFINITY) or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            return field["values"][0]
    return ""


def _facts(node: Json) -> tuple[Any, ...]:
    return labels_of(node), node["spec"].get("taints")
