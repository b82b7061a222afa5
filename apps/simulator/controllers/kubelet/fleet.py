"""All simulated kubelets in one program: who owns which node, heartbeats, leases.

Not here: what one kubelet does with its pods (agent).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from apps.simulator.client import LEASES, NODES, PODS, ApiError
from apps.simulator.controllers.controller import QUIET_ERRORS, Context
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.kubelet.agent import NodeAgent
from apps.simulator.controllers.objects import node_of, uid_of
from apps.simulator.controllers.pace import now, to_micro_text

Json = dict[str, Any]
log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
_HEARTBEATS_PER_REPORT = 12
_INTRODUCED_AT_ONCE = 16


class KubeletFleet:
    """owns: says which nodes are ours; beside a real control plane some may be somebody else's."""

    def __init__(self, context: Context, owns: Callable[[Json], bool] = lambda node: True) -> None:
        self.context = context
        self._owns = owns
        self._agents: dict[str, NodeAgent] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = context.informers.store(PODS)
        self._nodes = context.informers.store(NODES)
        self._beats = 0
        # A thousand new connections at once would time out before the server has greeted them all.
        self._introducing = asyncio.Semaphore(_INTRODUCED_AT_ONCE)

    def _on_node(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.kind == "DELETED":
            agent = self._agents.pop(name, None)
            if agent:
                agent.close()
        elif name in self._agents:
            self._agents[name].on_node(change.object)
        elif self._owns(change.object):
            self._adopt(NodeAgent(self.context, change.object))

    def _adopt(self, agent: NodeAgent) -> None:
        self._agents[agent.name] = agent
        pods = self._pods.select("node", agent.name)
        if agent.ledger:
            agent.ledger.forget_except(uid_of(pod) for pod in pods)
        for pod in pods:
            agent.on_pod(pod)
        if not agent.stopped:
            self._introduce_soon(agent)

    async def _introduce(self, agent: NodeAgent) -> None:
        async with self._introducing:
            try:
                await self._renew(agent)
                await agent.report()
            except (ApiError, *QUIET_ERRORS) as error:
                log.warning("kubelet of %s could not report: %s", agent.name, error)

    def _on_pod(self, change: Change) -> None:
        agent = self._agents.get(node_of(change.object))
        if agent is None:
            return
        if change.kind == "DELETED":
            agent.on_pod_gone(uid_of(change.object))
        else:
            agent.on_pod(change.object)

    async def run(self) -> None:
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)
        try:
            while True:
                await self._beat()
        finally:
            for agent in self._agents.values():
                agent.close()
            for task in list(self._tasks):
                task.cancel()

    async def _beat(self) -> None:
        """One round over all nodes, spread over the heartbeat interval."""
        self._beats += 1
        started = asyncio.get_running_loop().time()
        interval = self.context.pace.heartbeat_seconds(len(self._agents))
        agents = [agent for agent in self._agents.values() if not agent.stopped]
        for position, agent in enumerate(agents):
            due = started + interval * position / len(agents)
            await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
            try:
                await self._renew(agent)
                if (self._beats + position) % _HEARTBEATS_PER_REPORT == 0:
                    await agent.report()
            except (ApiError, *QUIET_ERRORS) as error:
                log.info("heartbeat of %s: %s", agent.name, error)
        await asyncio.sleep(max(0.01, started + interval - asyncio.get_running_loop().time()))

    async def _renew(self, agent: NodeAgent) -> None:
        spec = {
            "holderIdentity": agent.name,
            "leaseDurationSeconds": 40,
            "renewTime": to_micro_text(now()),
        }
        client = self.context.client
        try:
            await client.patch(LEASES, LEASE_NAMESPACE, agent.name, {"spec": spec})
        except ApiError as error:
            if error.status != 404:
                raise
            node = agent.node["metadata"]
            owner = {"apiVersion": "v1", "kind": "Node", "name": agent.name, "uid": node["uid"]}
            meta = {"name": agent.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await client.create(LEASES, LEASE_NAMESPACE, {"metadata": meta, "spec": spec})

    def _introduce_soon(self, agent: NodeAgent) -> None:
        task = asyncio.get_running_loop().create_task(self._introduce(agent))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
