"""The node life-cycle controller: taints that follow a node's state, silent nodes, cordons.

Not here: what a NoExecute taint does to pods (taint_eviction).
"""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import LEASES, NODES, PODS, STRATEGIC, ApiError
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import (
    condition_of,
    is_ready,
    is_terminal,
    key_of,
    make_condition,
)
from apps.simulator.controllers.pace import now, to_text

Json = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)


class NodeLifecycle(Controller):
    name = "node-lifecycle"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = context.informers.store(NODES)
        self.leases = context.informers.store(LEASES)
        self.pods = context.informers.store(PODS)
        self._heard: dict[str, float] = {}
        self.tick_seconds = max(0.2, context.pace.seconds(5.0))

    async def run(self) -> None:
        self.nodes.subscribe(self._on_node)
        self.leases.subscribe(self._on_lease)
        await super().run()

    def _on_node(self, change: Change) -> None:
        name = key_of(change.object)
        if change.kind == "DELETED":
            self._heard.pop(name, None)
            return
        if change.before is None:
            self._heard[name] = asyncio.get_running_loop().time()
        self.enqueue(name)

    def _on_lease(self, change: Change) -> None:
        """What counts is when a renewal is seen, not the time written in it: clocks may differ."""
        if change.kind != "DELETED":
            self._heard[change.object["metadata"]["name"]] = asyncio.get_running_loop().time()

    async def tick(self) -> None:
        limit = self.pace.heartbeat_grace_seconds(len(self.nodes.objects))
        moment = asyncio.get_running_loop().time()
        for name, node in list(self.nodes.objects.items()):
            silent = moment - self._heard.get(name, moment) > limit
            ready = condition_of(node, "Ready")
            if silent and ready and ready["status"] != "Unknown":
                await self._mark_unknown(node)

    async def _mark_unknown(self, node: Json) -> None:
        moment = to_text(now())
        conditions = [
            {
                **condition,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": moment,
            }
            for condition in (node.get("status") or {}).get("conditions") or []
        ]
        await self.client.patch(
            NODES,
            "",
            node["metadata"]["name"],
            {"status": {"conditions": conditions}},
            subresource="status",
            content_type=STRATEGIC,
        )

    async def sync(self, key: str) -> None:
        node = self.nodes.get(key)
        if node is None:
            return
        wanted = self._wanted_taints(node)
        taints = node["spec"].get("taints") or []
        have = {(each["key"], each["effect"]) for each in taints if each["key"] in _OURS}
        if have != wanted:
            await self._write_taints(node, taints, wanted)
        ready = condition_of(node, "Ready")
        if ready and ready["status"] != "True":
            await self._mark_pods_not_ready(key)

    def _wanted_taints(self, node: Json) -> set[tuple[str, str]]:
        wanted = set()
        if node["spec"].get("unschedulable"):
            wanted.add((UNSCHEDULABLE, "NoSchedule"))
        # A node that never posted a condition loses its first taint as well.
        key = _problem_of(node)
        if key:
            wanted.add((key, "NoSchedule"))
            if not self._is_full_disruption():
                wanted.add((key, "NoExecute"))
        return wanted

    def _is_full_disruption(self) -> bool:
        """When every node is silent the fault is more likely here: nobody is evicted."""
        return all(_problem_of(node) for node in self.nodes.objects.values())

    async def _write_taints(self, node: Json, taints: list[Json], wanted: set[tuple[str, str]]) -> None:
        """The list is written whole, with the revision it was read at."""
        kept = [
            each for each in taints if each["key"] not in _OURS or (each["key"], each["effect"]) in wanted
        ]
        have = {(each["key"], each["effect"]) for each in kept}
        for key, effect in sorted(wanted - have):
            kept.append({"key": key, "effect": effect, "timeAdded": to_text(now())})
        meta = node["metadata"]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "spec": {"taints": kept or None},
        }
        await self.client.patch(NODES, "", meta["name"], body)
        if _problem_of(node):
            # Others may now be evicted or, in a full disruption, must not be.
            for name in self.nodes.objects:
                self.enqueue(name, after=0.05)

    async def _mark_pods_not_ready(self, node: str) -> None:
        for pod in self.pods.select("node", node):
            if is_terminal(pod) or not is_ready(pod):
                continue
            meta = pod["metadata"]
            condition = make_condition("Ready", "False", "NodeNotReady")
            body = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [condition]}}
            try:
                await self.client.patch(
                    PODS, meta["namespace"], meta["name"], body, subresource="status", content_type=STRATEGIC
                )
            except ApiError as error:
                if error.status not in (404, 409, 422):
                    raise


def _problem_of(node: Json) -> str:
    ready = condition_of(node, "Ready")
    if ready is None or ready["status"] == "True":
        return ""
    return UNREACHABLE if ready["status"] == "Unknown" else NOT_READY
