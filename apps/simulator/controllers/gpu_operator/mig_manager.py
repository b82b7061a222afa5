"""The MIG manager: one per node, as long as a pod of its DaemonSet runs there.

It acts when the node's label `nvidia.com/mig.config` changes, and once when it starts. Not here: what
it does then (reconfigure).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from apps.simulator.client import NODES, PODS, ApiError
from apps.simulator.controllers.controller import QUIET_ERRORS, Context
from apps.simulator.controllers.gpu_operator.labels import MIG_CONFIG, MIG_MANAGER
from apps.simulator.controllers.gpu_operator.mounts import Mounts
from apps.simulator.controllers.gpu_operator.reconfigure import CONFIG_MAP, Reconfiguration
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.kubelet.gpu_stack import OPERATOR_NAMESPACE
from apps.simulator.controllers.objects import is_running, labels_of, node_of, uid_of

Json = dict[str, Any]
log = logging.getLogger(__name__)


class WantedConfig:
    """The label's value as the real manager keeps it: the latest, and the one read last."""

    def __init__(self) -> None:
        self._current = ""
        self._read = ""
        self._changed = asyncio.Event()

    def set(self, value: str) -> None:
        """An empty value wakes nobody up; the same value after an empty one does."""
        self._current = value
        if value:
            self._changed.set()

    async def next(self) -> str:
        if self._read == self._current:
            self._changed.clear()
            await self._changed.wait()
        self._read = self._current
        return self._read


class Manager:
    """run: (pod UID, restarts of its container): another one is another process."""

    def __init__(self, context: Context, node: Json, run: tuple[str, int], mounts: Mounts) -> None:
        self.context, self.run, self._mounts = context, run, mounts
        self._started = asyncio.get_running_loop().time()
        self.node: str = node["metadata"]["name"]
        self.label = labels_of(node).get(MIG_CONFIG, "")
        self._wanted = WantedConfig()
        self._wanted.set(self.label)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def on_node(self, node: Json) -> None:
        label = labels_of(node).get(MIG_CONFIG, "")
        if label != self.label:
            self.label = label
            self._wanted.set(label)

    def _read_configs(self) -> Json | None:
        return self._mounts.read(self.node, self._started)

    def end(self) -> None:
        self._task.cancel()

    async def _serve(self) -> None:
        while True:
            value = await self._wanted.next()
            if not value:
                continue
            try:
                await Reconfiguration(self.context, self.node, self._read_configs).run(value)
            except (ApiError, *QUIET_ERRORS) as error:
                log.info("MIG manager of %s: %s", self.node, error)
            except Exception:
                # What stands in annotations may be anything; the next change of the label is heard.
                log.exception("the MIG manager of %s failed on %s", self.node, value)


class MigManagers:
    def __init__(self, context: Context) -> None:
        self.context = context
        self._nodes = context.informers.store(NODES)
        self._pods = context.informers.store(PODS)
        self._mounts = Mounts(context, f"{OPERATOR_NAMESPACE}/{CONFIG_MAP}")
        self._managers: dict[str, Manager] = {}

    async def run(self) -> None:
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)
        try:
            await asyncio.Event().wait()
        finally:
            for manager in self._managers.values():
                manager.end()

    def _on_node(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.kind == "DELETED":
            self._end(name)
        elif name in self._managers:
            self._managers[name].on_node(change.object)
        elif change.before is None:
            for pod in self._pods.select("node", name):
                self._look_at(pod)

    def _on_pod(self, change: Change) -> None:
        if change.kind == "DELETED" and _is_manager(change.object):
            known = self._managers.get(node_of(change.object))
            if known and known.run[0] == uid_of(change.object):
                self._end(known.node)
        elif change.kind != "DELETED":
            self._look_at(change.object)

    def _look_at(self, pod: Json) -> None:
        node = self._nodes.get(node_of(pod)) if node_of(pod) else None
        if node is None or not _is_manager(pod):
            return
        name, run = node["metadata"]["name"], _run_of(pod)
        known = self._managers.get(name)
        if known and known.run == run:
            return
        if known and known.run[0] == uid_of(pod):
            self._end(name)
        if run and name not in self._managers:
            self._managers[name] = Manager(self.context, node, run, self._mounts)

    def _end(self, node: str) -> None:
        manager = self._managers.pop(node, None)
        if manager:
            manager.end()


def _is_manager(pod: Json) -> bool:
    return pod["metadata"]["namespace"] == OPERATOR_NAMESPACE and labels_of(pod).get("app") == MIG_MANAGER


def _run_of(pod: Json) -> tuple[str, int] | None:
    """None while its container does not run."""
    if not is_running(pod):
        return None
    return uid_of(pod), pod["status"]["containerStatuses"][0].get("restartCount", 0)
