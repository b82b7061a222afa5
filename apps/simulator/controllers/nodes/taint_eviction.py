"""Taint eviction: pods that do not (or not for ever) tolerate a NoExecute taint are deleted."""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import NODES, PODS, STRATEGIC, ApiError
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import is_terminal, is_terminating, key_of, make_condition, node_of
from apps.simulator.controllers.selectors import tolerates_one

Json = dict[str, Any]


class TaintEviction(Controller):
    name = "taint-eviction"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = context.informers.store(NODES)
        self.pods = context.informers.store(PODS)
        self._since: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        self.nodes.subscribe(self._on_node)
        self.pods.subscribe(self._on_pod)
        await super().run()

    def _on_node(self, change: Change) -> None:
        name = key_of(change.object)
        taints = _no_execute(change.object) if change.kind != "DELETED" else []
        keys = {(name, each["key"]) for each in taints}
        for known in [each for each in self._since if each[0] == name and each not in keys]:
            del self._since[known]
        fresh = [each for each in keys if each not in self._since]
        for each in fresh:
            self._since[each] = asyncio.get_running_loop().time()
        if fresh:
            for pod in self.pods.select("node", name):
                self.enqueue(key_of(pod))

    def _on_pod(self, change: Change) -> None:
        node = self.nodes.get(node_of(change.object)) if node_of(change.object) else None
        if node and change.kind != "DELETED" and _no_execute(node):
            self.enqueue(key_of(change.object))

    async def sync(self, key: str) -> None:
        pod = self.pods.get(key)
        node = self.nodes.get(node_of(pod)) if pod and node_of(pod) else None
        if pod is None or node is None or is_terminal(pod) or is_terminating(pod):
            return
        left = self._seconds_left(pod, node)
        if left is None:
            return
        if left > 0:
            self.enqueue(key, after=left)
            return
        await self._evict(pod)

    def _seconds_left(self, pod: Json, node: Json) -> float | None:
        """Real seconds until the pod has to go; None when it may stay."""
        moment = asyncio.get_running_loop().time()
        deadlines = []
        for taint in _no_execute(node):
            since = self._since.get((node["metadata"]["name"], taint["key"]), moment)
            matching = [each for each in pod["spec"].get("tolerations") or [] if tolerates_one(each, taint)]
            if not matching:
                return 0.0
            limits = [
                each["tolerationSeconds"] for each in matching if each.get("tolerationSeconds") is not None
            ]
            if len(limits) == len(matching):
                deadlines.append(since + self.pace.seconds(max(0, min(limits))))
        return max(0.0, min(deadlines) - moment) if deadlines else None

    async def _evict(self, pod: Json) -> None:
        meta = pod["metadata"]
        message = "Taint manager: deleting due to NoExecute taint"
        condition = make_condition("DisruptionTarget", "True", "DeletionByTaintManager", message)
        body = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self.client.patch(
                PODS, meta["namespace"], meta["name"], body, subresource="status", content_type=STRATEGIC
            )
            await self.client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise


def _no_execute(node: Json) -> list[Json]:
    return [each for each in node["spec"].get("taints") or [] if each.get("effect") == "NoExecute"]
