"""The operator's node labels: which operands a node gets, and the MIG configuration where none is named.

A value that stands there already is honoured: `false`, or a pause.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.client import DAEMON_SETS, NODES
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.kubelet.gpu_stack import DEPLOY, OPERATOR_NAMESPACE, PLUGIN
from apps.simulator.controllers.objects import key_of, labels_of

Json = dict[str, Any]

MIG_CONFIG = "nvidia.com/mig.config"
MIG_STATE = "nvidia.com/mig.config.state"
MIG_MANAGER = "nvidia-mig-manager"
OPERANDS = f"{DEPLOY}operands"  # "false": the operator leaves the node to others
_OPERANDS = (
    "driver",
    "container-toolkit",
    "device-plugin",
    "gpu-feature-discovery",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
)


class GpuOperator(Controller):
    """Installed where its device plugin's DaemonSet exists."""

    name = "gpu-operator"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = context.informers.store(NODES)
        self.daemons = context.informers.store(DAEMON_SETS)

    async def run(self) -> None:
        self.nodes.subscribe(self._on_node)
        self.daemons.subscribe(self._on_daemon)
        await super().run()

    def _on_node(self, change: Change) -> None:
        if change.kind != "DELETED":
            self.enqueue(key_of(change.object))

    def _on_daemon(self, change: Change) -> None:
        if change.kind != "MODIFIED" and change.object["metadata"]["namespace"] == OPERATOR_NAMESPACE:
            for name in self.nodes.objects:
                self.enqueue(name)

    async def sync(self, key: str) -> None:
        node = self.nodes.get(key)
        if node is None or not self.daemons.get(f"{OPERATOR_NAMESPACE}/{PLUGIN}"):
            return
        missing = missing_labels(labels_of(node), has_mig_manager=self._has_mig_manager())
        if missing:
            await self.client.patch(NODES, "", key, {"metadata": {"labels": missing}})

    def _has_mig_manager(self) -> bool:
        return self.daemons.get(f"{OPERATOR_NAMESPACE}/{MIG_MANAGER}") is not None


def missing_labels(labels: dict[str, str], *, has_mig_manager: bool) -> dict[str, str]:
    if labels.get("nvidia.com/gpu.present") != "true" or labels.get(OPERANDS) == "false":
        return {}
    wanted = {f"{DEPLOY}{operand}": "true" for operand in _OPERANDS}
    if labels.get("nvidia.com/mig.capable") == "true":
        wanted[f"{DEPLOY}mig-manager"] = "true"
        if has_mig_manager:
            wanted[MIG_CONFIG] = "all-disabled"
    return {key: value for key, value in wanted.items() if not labels.get(key)}
