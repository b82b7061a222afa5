"""The ReplicaSet controller: keeps N active pods, counts them."""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import PODS, REPLICA_SETS
from apps.simulator.controllers.objects import (
    condition_of,
    is_active,
    is_ready,
    is_terminating,
    labels_of,
    node_of,
    phase_of,
)
from apps.simulator.controllers.owners.pod_owner import PodOwner, make_pod
from apps.simulator.controllers.pace import seconds_since
from apps.simulator.controllers.selectors import matches_selector

Json = dict[str, Any]

_BURST = 500


class ReplicaSets(PodOwner):
    name = "replicaset"
    resource = REPLICA_SETS

    async def sync(self, key: str) -> None:
        owner = self.owners.get(key)
        if owner is None:
            return
        pods = await self._release_strangers(owner, self.pods_of(owner))
        active = [pod for pod in pods if is_active(pod)]
        if not is_terminating(owner):
            await self._scale(owner, active)
        await self._count(owner, active)

    async def _release_strangers(self, owner: Json, pods: list[Json]) -> list[Json]:
        """A pod whose labels left the selector is set free and replaced."""
        mine = []
        for pod in pods:
            if matches_selector(owner["spec"].get("selector"), labels_of(pod)):
                mine.append(pod)
                continue
            meta = pod["metadata"]
            body = {"metadata": {"uid": meta["uid"], "ownerReferences": None}}
            await self.client.patch(PODS, meta["namespace"], meta["name"], body)
        return mine

    async def _scale(self, owner: Json, active: list[Json]) -> None:
        wanted = owner["spec"].get("replicas", 1)
        missing = wanted - len(active)
        if missing > 0:
            body = make_pod(owner, REPLICA_SETS, owner["spec"]["template"])
            async with asyncio.TaskGroup() as group:
                for _ in range(min(missing, _BURST)):
                    group.create_task(self.create_pod(owner, body))
        elif missing < 0:
            for pod in sorted(active, key=_worth)[:-missing]:
                await self.delete_pod(owner, pod)

    async def _count(self, owner: Json, active: list[Json]) -> None:
        ready = [pod for pod in active if is_ready(pod)]
        minimum = self.pace.seconds(owner["spec"].get("minReadySeconds") or 0)
        ages = [seconds_since((condition_of(pod, "Ready") or {}).get("lastTransitionTime")) for pod in ready]
        available = sum(1 for age in ages if age >= minimum)
        if available < len(ready):
            meta = owner["metadata"]
            self.enqueue(f"{meta['namespace']}/{meta['name']}", after=max(0.1, minimum - max(ages)))
        await self.write_status(
            owner,
            {
                "replicas": len(active),
                "fullyLabeledReplicas": len(active),
                "readyReplicas": len(ready),
                "availableReplicas": available,
                "observedGeneration": owner["metadata"].get("generation", 1),
            },
        )


def _worth(pod: Json) -> tuple[bool, bool, bool, str]:
    """Cheapest to lose first: unbound, then not running, then not ready, then the youngest."""
    born = pod["metadata"].get("creationTimestamp") or ""
    return bool(node_of(pod)), phase_of(pod) == "Running", is_ready(pod), _younger_first(born)


def _younger_first(text: str) -> str:
    return "".join(chr(255 - ord(letter)) for letter in text)
