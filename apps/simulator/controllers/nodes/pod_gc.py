"""Pod garbage: pods of nodes that no longer exist, and unbound pods that are being deleted."""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import NODES, PODS, STRATEGIC, ApiError
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.objects import is_terminal, is_terminating, make_condition, node_of

Json = dict[str, Any]

_QUARANTINE_SECONDS = 40.0
_ROUND_SECONDS = 20.0


class PodCollector(Controller):
    name = "pod-gc"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = context.informers.store(PODS)
        self.nodes = context.informers.store(NODES)
        self._missing_since: dict[str, float] = {}
        self.tick_seconds = max(0.2, context.pace.seconds(_ROUND_SECONDS))

    async def tick(self) -> None:
        moment = asyncio.get_running_loop().time()
        missing = set()
        for key, pod in list(self.pods.objects.items()):
            node = node_of(pod)
            if not node:
                if is_terminating(pod):
                    self.enqueue(key)
            elif node not in self.nodes.objects:
                missing.add(node)
                since = self._missing_since.setdefault(node, moment)
                if moment - since >= self.pace.seconds(_QUARANTINE_SECONDS):
                    self.enqueue(key)
        for node in [each for each in self._missing_since if each not in missing]:
            del self._missing_since[node]

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None:
            return
        meta = pod["metadata"]
        try:
            if node_of(pod) and not is_terminal(pod):
                message = "PodGC: node no longer exists"
                condition = make_condition("DisruptionTarget", "True", "DeletionByPodGC", message)
                body = {
                    "metadata": {"uid": meta["uid"]},
                    "status": {"phase": "Failed", "conditions": [condition]},
                }
                await self.client.patch(
                    PODS, meta["namespace"], meta["name"], body, subresource="status", content_type=STRATEGIC
                )
            await self.client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace_seconds=0)
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise
