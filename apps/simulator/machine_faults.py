"""Faults of nodes, GPUs and the GPU operator, by name: set on one node or where they belong, and taken back.

Each becomes something that the simulated machines read: an annotation or a label of a node, or the
DaemonSet of the MIG manager. Not here: what it does there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from apps.simulator.client import DAEMON_SETS, NODES, STRATEGIC, KubernetesClient
from apps.simulator.controllers.gpu_operator.faults import (
    FAILED,
    FAULTS_ANNOTATION,
    LABEL_CHANGED,
    LAYOUT_LOST,
    REBOOT,
    SILENT,
    STALE_SUCCESS,
    WRONG_RESOURCES,
    read_faults,
    write_faults,
)
from apps.simulator.controllers.gpu_operator.labels import MIG_MANAGER
from apps.simulator.controllers.informers import Informers
from apps.simulator.controllers.kubelet.gpu_stack import DEPLOY, OPERATOR_NAMESPACE
from apps.simulator.controllers.kubelet.reboot import REBOOT_ANNOTATION
from apps.simulator.controllers.kubelet.rules import HUNG_ANNOTATION
from apps.simulator.controllers.objects import labels_of
from apps.simulator.hardware import LINKS_ANNOTATION, UNHEALTHY_ANNOTATION, hardware_of
from apps.simulator.mig.setup import LOST_ANNOTATION, setup_of

Json = dict[str, Any]
Test = Callable[[Json], bool]

ABSENT = "mig-manager-absent"


def _has_devices(node: Json) -> bool:
    return hardware_of(node) is not None


def _can_mig(node: Json) -> bool:
    return labels_of(node).get("nvidia.com/mig.capable") == "true"


def _is_cut(node: Json) -> bool:
    setup = setup_of(node)
    return setup is not None and any(setup.layout.values())


@dataclass(frozen=True)
class MachineFault:
    """fits: nodes that it can hit; all of them without a node named, or only the first that is well.
    notes: annotations while it is set. gpu: the one it hits, from the end if negative. is_mig: it stands
    among the MIG faults of the node, so many times."""

    fits: Test
    first_only: bool = False
    notes: tuple[tuple[str, str], ...] = ()
    gpu: int | None = None
    is_mig: bool = False
    times: int | None = None


MACHINE_FAULTS = {
    "dead-kubelet": MachineFault(_has_devices, True, (("sim.gpu.internal/kubelet", "stopped"),)),
    "sick-gpu": MachineFault(_has_devices, True, ((UNHEALTHY_ANNOTATION, "{gpu}"),), gpu=0),
    "gpu-lost": MachineFault(_has_devices, True, ((LOST_ANNOTATION, "{gpu}"),), gpu=-1),
    "label-drift": MachineFault(_has_devices, True, ((LINKS_ANNOTATION, "pcie"),)),
    ABSENT: MachineFault(_can_mig),
    "mig-wedged": MachineFault(_can_mig, notes=((HUNG_ANNOTATION, "nvidia-dcgm-exporter"),)),
    SILENT: MachineFault(_can_mig, is_mig=True),
    FAILED: MachineFault(_can_mig, is_mig=True),
    WRONG_RESOURCES: MachineFault(_can_mig, is_mig=True),
    STALE_SUCCESS: MachineFault(_can_mig, is_mig=True),
    REBOOT: MachineFault(_can_mig, is_mig=True),
    LABEL_CHANGED: MachineFault(_can_mig, is_mig=True, times=1),
    LAYOUT_LOST: MachineFault(_is_cut, True, ((REBOOT_ANNOTATION, "requested"),), is_mig=True),
}


class MachineFaults:
    """The door for the command line and the control endpoint. They act on the objects of the cluster."""

    def __init__(self, client: KubernetesClient, informers: Informers) -> None:
        self.client = client
        self._nodes = informers.store(NODES)
        self._set: dict[tuple[str, str], list[str]] = {}
        self._removed: Json | None = None

    # --- as the API server asks for it ---

    def knows(self, data: Json) -> bool:
        name = data.get("remove") or data.get("name")
        return name in MACHINE_FAULTS and "action" not in data

    async def change(self, data: Json) -> Json:
        node = str(data.get("node") or "")
        if "remove" in data:
            return {"removed": await self.remove(str(data["remove"]), node=node)}
        times = None if data.get("times") is None else int(data["times"])
        gpu = None if data.get("gpu") is None else int(data["gpu"])
        return await self.set(str(data["name"]), node=node, times=times, gpu=gpu)

    async def clear(self) -> None:
        for name, node in list(self._set):
            await self.remove(name, node=node)

    def listed(self) -> list[Json]:
        return [{"name": name, "node": node, "nodes": self._set[name, node]} for name, node in self._set]

    # --- setting and taking back ---

    async def set(
        self, name: str, *, node: str = "", times: int | None = None, gpu: int | None = None
    ) -> Json:
        """Raises ValueError when there is nothing that the fault could hit."""
        fault = MACHINE_FAULTS[name]
        if times is not None and not fault.is_mig:
            raise ValueError(f"fault {name!r} lasts until it is removed: times is for MIG changes")
        if gpu is not None and fault.gpu is None:
            raise ValueError(f"fault {name!r} hits no single GPU: leave gpu out")
        fault = replace(fault, times=fault.times if times is None else times)
        fault = fault if gpu is None else replace(fault, gpu=gpu)
        chosen = self._choose(name, fault, node)
        if name == REBOOT:
            await self._allow_reboot("true")
        if name == ABSENT and not node:
            await self._remove_manager()
        else:
            for each in chosen:
                await self._put(name, fault, each)
        self._set[name, node] = [each["metadata"]["name"] for each in chosen]
        return {"name": name, "node": node, "nodes": self._set[name, node]}

    async def remove(self, name: str, *, node: str = "") -> bool:
        """False when it is not set (there)."""
        names = self._set.pop((name, node), None)
        if names is None:
            return False
        fault = MACHINE_FAULTS[name]
        if name == REBOOT:
            await self._allow_reboot("false")
        if self._removed is not None and name == ABSENT and not node:
            await self.client.create(DAEMON_SETS, OPERATOR_NAMESPACE, self._removed)
            self._removed = None
            return True
        for each in names:
            known = self._nodes.get(each)
            if known is not None:
                await self._take(name, fault, known)
        return True

    def _choose(self, name: str, fault: MachineFault, node: str) -> list[Json]:
        if node:
            known = self._nodes.get(node)
            if known is None:
                raise ValueError(f"fault {name!r}: there is no node {node!r}")
            if not fault.fits(known):
                raise ValueError(f"fault {name!r} cannot hit node {node!r}: it lacks what would fail")
            return [known]
        found = [each for each in self._nodes.objects.values() if fault.fits(each)]
        if fault.first_only:
            found = [each for each in found if not each["spec"].get("taints")]
        if not found:
            what = (
                "a MIG-capable node" if fault.fits is not _has_devices else "a healthy node with accelerators"
            )
            raise ValueError(f"fault {name!r} needs {what}: choose another scene")
        return found[:1] if fault.first_only else found

    async def _put(self, name: str, fault: MachineFault, node: Json) -> None:
        hardware = hardware_of(node)
        count = len(hardware.devices) if hardware else 0
        if fault.gpu is not None and not -count <= fault.gpu < count:
            raise ValueError(
                f"fault {name!r}: {node['metadata']['name']} has {count} GPUs, no GPU {fault.gpu}"
            )
        gpu = (fault.gpu or 0) % max(count, 1)
        notes: dict[str, str | None] = {key: value.format(gpu=gpu) for key, value in fault.notes}
        if fault.is_mig:
            notes[FAULTS_ANNOTATION] = json.dumps({**read_faults(node), name: fault.times})
        labels = {f"{DEPLOY}mig-manager": "false"} if name == ABSENT else {}
        body = {"metadata": {"annotations": notes, "labels": labels}}
        await self.client.patch(NODES, "", node["metadata"]["name"], body)

    async def _take(self, name: str, fault: MachineFault, node: Json) -> None:
        labels = {f"{DEPLOY}mig-manager": "true"} if name == ABSENT else {}
        notes = {key: None for key, _ in fault.notes if key != REBOOT_ANNOTATION}
        body = {"metadata": {"annotations": notes, "labels": labels}}
        await self.client.patch(NODES, "", node["metadata"]["name"], body)
        if fault.is_mig:
            left = {each: times for each, times in read_faults(node).items() if each != name}
            await write_faults(self.client, node["metadata"]["name"], left)

    async def _remove_manager(self) -> None:
        """As an operator does whose MIG manager is switched off."""
        daemon = await self.client.get(DAEMON_SETS, OPERATOR_NAMESPACE, MIG_MANAGER)
        meta = daemon["metadata"]
        kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
        self._removed = {"metadata": kept, "spec": daemon["spec"]}
        await self.client.delete(DAEMON_SETS, OPERATOR_NAMESPACE, MIG_MANAGER)

    async def _allow_reboot(self, value: str) -> None:
        variable = {"name": "WITH_REBOOT", "value": value}
        containers = [{"name": "main", "env": [variable]}]
        body = {"spec": {"template": {"spec": {"containers": containers}}}}
        await self.client.patch(DAEMON_SETS, OPERATOR_NAMESPACE, MIG_MANAGER, body, content_type=STRATEGIC)
