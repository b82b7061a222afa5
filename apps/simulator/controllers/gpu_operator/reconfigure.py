"""One change of a node's MIG layout, step by step as the real manager does it.

It looks at nothing but the GPUs and the operands: no cordon, no drain, no user pod. A GPU that a pod
uses makes the change fail. Faults that bend it are set per node (gpu_operator/faults).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from apps.simulator.client import DAEMON_SETS, NODES, PODS, ApiError
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.gpu_operator.faults import (
    FAILED,
    LABEL_CHANGED,
    LAYOUT_LOST,
    REBOOT,
    SILENT,
    STALE_SUCCESS,
    WRONG_RESOURCES,
    spend_fault,
)
from apps.simulator.controllers.gpu_operator.labels import MIG_CONFIG, MIG_MANAGER, MIG_STATE
from apps.simulator.controllers.kubelet.devices import CHECKPOINT_ANNOTATION
from apps.simulator.controllers.kubelet.gpu_stack import DEPLOY, DISCOVERY, OPERATOR_NAMESPACE, PLUGIN
from apps.simulator.controllers.kubelet.reboot import REBOOT_ANNOTATION
from apps.simulator.controllers.objects import annotations_of, labels_of
from apps.simulator.hardware import HOLDERS_ANNOTATION
from apps.simulator.mig.layout import LAYOUT_ANNOTATION, Layout, layout_text
from apps.simulator.mig.parted import (
    Entry,
    PartedError,
    Stopped,
    change_modes,
    cut_gpus,
    is_applied,
    needs_mode_change,
    read_config,
)
from apps.simulator.mig.setup import Setup, setup_of

Json = dict[str, Any]
log = logging.getLogger(__name__)

CONFIG_MAP = "default-mig-parted-config"
CONFIG_KEY = "config.yaml"
PAUSED = "paused-for-mig-change"
_PAUSES = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
_WAITS_FOR = (PLUGIN, DISCOVERY, "nvidia-dcgm-exporter", "nvidia-dcgm")
_VALIDATOR = "nvidia-operator-validator"
_OPERAND_SECONDS = 300.0
_POLL_SECONDS = 1.0
_MODE_SECONDS = 6.0
_CUT_SECONDS = 4.0


class Reconfiguration:
    """read_configs: the ConfigMap as it is mounted there now, None where there is none."""

    def __init__(self, context: Context, node: str, read_configs: Callable[[], Json | None]) -> None:
        self._read_configs = read_configs
        self.client, self.pace, self.node = context.client, context.pace, node
        self.pods = context.informers.store(PODS)
        self._before: dict[str, str] = {}

    async def run(self, name: str) -> None:
        """name: of the configuration."""
        node = await self._read()
        if await self._spends(SILENT) or await self._spends(LAYOUT_LOST):
            return
        self._before = labels_of(node)
        if await self._spends(STALE_SUCCESS):
            # The end of an earlier run, told late: nothing of this one was done.
            await self._label({MIG_STATE: "success"})
            return
        try:
            config = self._find(name)
            setup = _setup(node)
            if is_applied(setup, config):
                await self._end("success")
                return
            if needs_mode_change(setup, config) and self._before.get(MIG_STATE) == "rebooting":
                raise PartedError("MIG mode change did not take effect after rebooting")
            if not await self._stop_operands():
                # The real one ends here too: no word of failure, nothing is taken back.
                return
            if await self._spends(LABEL_CHANGED):
                # Somebody else, who knows nothing of this change.
                other = "all-balanced" if name != "all-balanced" else "all-disabled"
                await self._label({MIG_CONFIG: other})
            if not await self._apply(config):
                return
        except PartedError as error:
            log.info("MIG manager of %s: %s", self.node, error)
            await self._end("failed")
            return
        await self._restart_validator()
        await self._end("success")

    # --- operands ---

    async def _stop_operands(self) -> bool:
        """False when one did not go in time."""
        await self._label({MIG_STATE: "pending"})
        await self._label(self._deploy_labels(PAUSED))
        for app in _WAITS_FOR:
            if not await self._wait_until_gone(app):
                log.info("MIG manager of %s: %s did not shut down", self.node, app)
                return False
        return True

    async def _wait_until_gone(self, app: str) -> bool:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.pace.seconds(_OPERAND_SECONDS)
        while self._operands(app):
            if loop.time() >= ends:
                return False
            await asyncio.sleep(max(0.02, self.pace.seconds(_POLL_SECONDS)))
        return True

    def _operands(self, app: str) -> list[Json]:
        return [
            pod
            for pod in self.pods.select("node", self.node)
            if pod["metadata"]["namespace"] == OPERATOR_NAMESPACE and labels_of(pod).get("app") == app
        ]

    async def _restart_validator(self) -> None:
        for pod in self._operands(_VALIDATOR):
            meta = pod["metadata"]
            try:
                await self.client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    def _deploy_labels(self, value: str) -> dict[str, str]:
        """An operand that is switched off stays so."""
        labels = {f"{DEPLOY}{operand}": value for operand in _PAUSES}
        return {key: "false" if self._before.get(key) == "false" else labels[key] for key in labels}

    async def _end(self, state: str) -> None:
        await self._label(self._deploy_labels("true"))
        await self._label({MIG_STATE: state})

    # --- GPUs ---

    async def _apply(self, config: tuple[Entry, ...]) -> bool:
        """False when the node is being rebooted instead. Raises PartedError."""
        setup, busy = await self._look()
        if needs_mode_change(setup, config):
            await asyncio.sleep(self.pace.seconds(_MODE_SECONDS))
            setup, busy = await self._look()
            if not await self._spends(REBOOT):
                await self._write(lambda: change_modes(setup, config, busy))
            elif await self._may_reboot():
                await self._reboot(change_modes(setup, config, busy))
                return False
        if await self._spends(FAILED):
            raise PartedError("error setting MIGConfig: Unknown Error")
        await asyncio.sleep(self.pace.seconds(_CUT_SECONDS))
        setup, busy = await self._look()
        is_wrong = await self._spends(WRONG_RESOURCES)
        await self._write(lambda: _cut(setup, config, busy, is_wrong=is_wrong))
        return True

    async def _write(self, change: Callable[[], Layout]) -> None:
        """Also what was changed before an error."""
        try:
            cuts = change()
        except Stopped as stopped:
            await self._annotate({LAYOUT_ANNOTATION: layout_text(stopped.cuts)})
            raise
        await self._annotate({LAYOUT_ANNOTATION: layout_text(cuts)})

    async def _may_reboot(self) -> bool:
        daemon = await self.client.get(DAEMON_SETS, OPERATOR_NAMESPACE, MIG_MANAGER)
        containers = daemon["spec"]["template"]["spec"]["containers"]
        variables = {one["name"]: one.get("value") for each in containers for one in each.get("env") or []}
        return variables.get("WITH_REBOOT") == "true"

    async def _reboot(self, cuts: Layout) -> None:
        """The mode change takes effect at the restart of the node."""
        await self._label({MIG_STATE: "rebooting"})
        await self._annotate({LAYOUT_ANNOTATION: layout_text(cuts), REBOOT_ANNOTATION: "requested"})

    async def _look(self) -> tuple[Setup, frozenset[str]]:
        """The GPUs, and the UUIDs of those devices that pods use."""
        node = await self._read()
        notes = annotations_of(node)
        text = notes.get(HOLDERS_ANNOTATION) or notes.get(CHECKPOINT_ANNOTATION) or '{"devices":{}}'
        return _setup(node), frozenset(json.loads(text)["devices"])

    # --- API ---

    def _find(self, name: str) -> tuple[Entry, ...]:
        found = self._read_configs()
        if found is None:
            raise PartedError(f"no configuration file: {CONFIG_MAP} is not mounted")
        return read_config((found.get("data") or {}).get(CONFIG_KEY, ""), name)

    async def _read(self) -> Json:
        return await self.client.get(NODES, "", self.node)

    async def _spends(self, fault: str) -> bool:
        return await spend_fault(self.client, self.node, fault)

    async def _label(self, labels: dict[str, str]) -> None:
        await self.client.patch(NODES, "", self.node, {"metadata": {"labels": labels}})

    async def _annotate(self, annotations: dict[str, str]) -> None:
        await self.client.patch(NODES, "", self.node, {"metadata": {"annotations": annotations}})


def _setup(node: Json) -> Setup:
    setup = setup_of(node)
    if setup is None:
        raise PartedError("error enumerating GPUs: none found")
    return setup


def _cut(setup: Setup, config: tuple[Entry, ...], busy: frozenset[str], *, is_wrong: bool) -> Layout:
    """is_wrong: one instance fewer than asked for, on the first GPU that is cut anew."""
    cuts = cut_gpus(setup, config, busy)
    first = next((index for index in sorted(cuts) if cuts[index] != setup.layout.get(index)), None)
    return {index: cuts[index][:-1] if is_wrong and index == first else cuts[index] for index in cuts}
