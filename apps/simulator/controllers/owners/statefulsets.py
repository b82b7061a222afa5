"""The StatefulSet controller: numbered pods that keep their names, one after the other."""

from __future__ import annotations

from typing import Any

from apps.simulator.client import STATEFUL_SETS
from apps.simulator.controllers.objects import is_ready, is_terminal, is_terminating, labels_of
from apps.simulator.controllers.owners.pod_owner import PodOwner, hash_template, make_pod

Json = dict[str, Any]

_REVISION = "controller-revision-hash"


class StatefulSets(PodOwner):
    name = "statefulset"
    resource = STATEFUL_SETS

    async def sync(self, key: str) -> None:
        owner = self.owners.get(key)
        if owner is None:
            return
        pods = {_ordinal(pod): pod for pod in self.pods_of(owner)}
        if not is_terminating(owner):
            await self._settle(owner, pods)
        await self._count(owner, pods)

    async def _settle(self, owner: Json, pods: dict[int, Json]) -> None:
        """One step; the next one follows when the watch shows that this one is done."""
        spec = owner["spec"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                await self._create(owner, ordinal)
                waits = True
            elif is_terminal(pod) and not is_terminating(pod):
                await self.delete_pod(owner, pod)
                waits = True
            else:
                waits = is_terminating(pod) or not is_ready(pod)
            if waits and not parallel:
                return
        surplus = sorted((each for each in pods if each not in wanted), reverse=True)
        for ordinal in surplus:
            if not is_terminating(pods[ordinal]):
                await self.delete_pod(owner, pods[ordinal])
            if not parallel:
                return
        await self._update_one(owner, [pods[each] for each in wanted if each in pods])

    async def _update_one(self, owner: Json, pods: list[Json]) -> None:
        """Rolling update: the highest pod with an old template goes, when all others are ready."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete" or not all(is_ready(pod) for pod in pods):
            return
        first = (strategy.get("rollingUpdate") or {}).get("partition") or 0
        revision = _revision_of(owner)
        for pod in reversed(pods):
            if _ordinal(pod) >= first and labels_of(pod).get(_REVISION, revision) != revision:
                await self.delete_pod(owner, pod)
                return

    async def _create(self, owner: Json, ordinal: int) -> None:
        name = f"{owner['metadata']['name']}-{ordinal}"
        body = make_pod(owner, STATEFUL_SETS, owner["spec"]["template"], name=name)
        body["metadata"]["labels"] |= {
            _REVISION: _revision_of(owner),
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        body["spec"].setdefault("hostname", name)
        await self.create_pod(owner, body)

    async def _count(self, owner: Json, pods: dict[int, Json]) -> None:
        revision = _revision_of(owner)
        ready = sum(1 for pod in pods.values() if is_ready(pod) and not is_terminating(pod))
        updated = sum(
            1
            for pod in pods.values()
            if labels_of(pod).get(_REVISION) == revision and not is_terminating(pod)
        )
        await self.write_status(
            owner,
            {
                "replicas": len(pods),
                "readyReplicas": ready,
                "availableReplicas": ready,
                "currentReplicas": updated,
                "updatedReplicas": updated,
                "currentRevision": revision,
                "updateRevision": revision,
                "observedGeneration": owner["metadata"].get("generation", 1),
            },
        )


def _ordinal(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _revision_of(owner: Json) -> str:
    return f"{owner['metadata']['name']}-{hash_template(owner['spec']['template'])}"
