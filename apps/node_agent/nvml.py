"""Asks NVIDIA's library (NVML) for the GPUs, their health and their MIG instances.

The library is opened for each look and closed again at once: a program that keeps it open is a client of the
GPU, and neither a change of the MIG mode nor a reset goes through while a GPU has clients.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pynvml

from apps.node_agent.devices import Cells, Device, Driver, DriverUnreachable, Instance

MIB = 1024 * 1024
NEEDS_RESTART = (
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
)
SICK = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "is lost (fallen off the bus)",
    pynvml.NVML_ERROR_RESET_REQUIRED: "needs a reset",
}
QUIET = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)
"""What a GPU answers that has no such thing."""
ANCESTORS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
"""As `nvidia-smi topo -m` names them."""
MIG_NAME = re.compile(r"\bMIG (\S{1,40})$")


def read_driver() -> Driver:
    """Raises DriverUnreachable."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        sentence = f"NVML cannot be opened: {error}. Is the driver up, and its library in this container?"
        raise DriverUnreachable(sentence, needs_restart=error.value in NEEDS_RESTART) from error
    try:
        return _Look().read()
    except pynvml.NVMLError as error:
        raise DriverUnreachable(f"NVML does not list the GPUs: {error}") from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


class _Look:
    """sick: what is wrong, by index."""

    def __init__(self) -> None:
        self.sick: dict[int, str] = {}
        self.problems: list[str] = []

    def read(self) -> Driver:
        count = pynvml.nvmlDeviceGetCount()
        handles = [self._ask(index, pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        found = [self._device(index, handle) for index, handle in enumerate(handles)]
        links = self._links(handles, found)
        told = [f"GPU {index} {what}" for index, what in sorted(self.sick.items())]
        return Driver(tuple(found), links, (*told, *dict.fromkeys(self.problems)))

    def _ask(self, index: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """None where the GPU does not answer; that it is lost is remembered."""
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            if error.value in SICK:
                self.sick[index] = SICK[error.value]
            elif error.value not in QUIET:
                self.problems.append(f"GPU {index} does not answer {call.__name__}: {error}")
        return None

    def _device(self, index: int, handle: Any) -> Device:
        if handle is None:
            return Device(index, healthy=False)
        address = self._ask(index, pynvml.nvmlDeviceGetPciInfo, handle)
        memory = self._ask(index, pynvml.nvmlDeviceGetMemoryInfo, handle)
        found = Device(
            index=index,
            uuid=self._ask(index, pynvml.nvmlDeviceGetUUID, handle) or "",
            bus_id=_text(address.busId) if address is not None else "",
            minor=self._ask(index, pynvml.nvmlDeviceGetMinorNumber, handle),
            memory_mib=memory.total // MIB if memory is not None else None,
            instances=self._instances(index, handle),
            healthy=self._is_healthy(index, handle),
        )
        return replace(found, healthy=False) if index in self.sick else found

    def _is_healthy(self, index: int, handle: Any) -> bool:
        """Memory that can no longer be mended counts; what a reset would mend is only said."""
        _, _, pending, failed = self._ask(index, pynvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        pending = pending or self._ask(index, pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
        if failed:
            self.sick[index] = "has memory rows that could not be replaced"
        elif pending:
            self.problems.append(f"GPU {index} waits for a reset to put faulty memory out of use")
        return not failed

    def _instances(self, index: int, handle: Any) -> tuple[Instance, ...]:
        mode = self._ask(index, pynvml.nvmlDeviceGetMigMode, handle)
        if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return ()
        places = self._ask(index, pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
        parts = [
            self._ask(index, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            for place in range(places)
        ]
        return tuple(self._instance(index, handle, part) for part in parts if part is not None)

    def _instance(self, index: int, handle: Any, part: Any) -> Instance:
        number = self._ask(index, pynvml.nvmlDeviceGetGpuInstanceId, part)
        name = MIG_NAME.search(self._ask(index, pynvml.nvmlDeviceGetName, part) or "")
        memory = self._ask(index, pynvml.nvmlDeviceGetMemoryInfo, part)
        whole = self._ask(index, pynvml.nvmlDeviceGetGpuInstanceById, handle, number)
        info = self._ask(index, pynvml.nvmlGpuInstanceGetInfo, whole) if whole is not None else None
        return Instance(
            uuid=self._ask(index, pynvml.nvmlDeviceGetUUID, part) or "",
            profile=name.group(1) if name else "",
            number=number,
            start=info.placement.start if info is not None else None,
            memory_mib=memory.total // MIB if memory is not None else None,
        )

    def _links(self, handles: Sequence[Any], devices: Sequence[Device]) -> Cells:
        """For where `nvidia-smi topo -m` cannot be had. Links to a switch reach every GPU on it."""
        bonds = [{} if handle is None else self._bonds(index, handle) for index, handle in enumerate(handles)]
        size = len(handles)
        rows = [["X" if a == b else "" for b in range(size)] for a in range(size)]
        for a, b in itertools.combinations(range(size), 2):
            if handles[a] is None or handles[b] is None:
                continue
            count = bonds[a].get(devices[b].bus_id.lower(), 0) or min(
                bonds[a].get("switch", 0), bonds[b].get("switch", 0)
            )
            if count:
                rows[a][b] = rows[b][a] = f"NV{count}"
            else:
                level = self._ask(a, pynvml.nvmlDeviceGetTopologyCommonAncestor, handles[a], handles[b])
                rows[a][b] = rows[b][a] = ANCESTORS.get(level, "")
        return tuple(map(tuple, rows))

    def _bonds(self, index: int, handle: Any) -> dict[str, int]:
        """Active NVLinks by where they lead: the address of a GPU, or "switch"."""
        found: dict[str, int] = {}
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            if self._ask(index, pynvml.nvmlDeviceGetNvLinkState, handle, link) != 1:
                continue
            kind = self._ask(index, pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                end = "switch"
            else:
                remote = self._ask(index, pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
                end = _text(remote.busId).lower() if remote is not None else ""
            found[end] = found.get(end, 0) + 1
        return found


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
