"""How the GPUs of one simulated node are cut: instances with their start slices and UUIDs.

A GPU that is absent from a layout is not in MIG mode; one with no instances is, but offers nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.simulator.hardware import MATRIX_ANNOTATION, Device, Hardware

Json = dict[str, Any]

LAYOUT_ANNOTATION = "sim.gpu.internal/mig-layout"


@dataclass(frozen=True, slots=True, order=True)
class Instance:
    """gpu: index of its GPU. start: first memory slice."""

    gpu: int
    start: int
    profile: str
    uuid: str


Layout = Mapping[int, tuple[Instance, ...]]


def make_instance(device: Device, profile: str, start: int) -> Instance:
    """The same cut at the same place has the same UUID, as with real drivers."""
    digest = hashlib.sha256(f"{device.uuid}/{profile}/{start}".encode()).hexdigest()
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return Instance(device.index, start, profile, f"MIG-{'-'.join(parts)}")


def make_layout(hardware: Hardware, cuts: Mapping[int, Iterable[tuple[str, int]]]) -> dict[int, Any]:
    """cuts: (profile, start) of each GPU in MIG mode."""
    return {
        index: tuple(sorted(make_instance(hardware.devices[index], *cut) for cut in cuts[index]))
        for index in sorted(cuts)
    }


def read_layout(node: Json, hardware: Hardware) -> Layout:
    """From the simulation's own annotation; for nodes of a dump from the node agent's matrix."""
    annotations = node["metadata"].get("annotations") or {}
    if LAYOUT_ANNOTATION in annotations:
        told = json.loads(annotations[LAYOUT_ANNOTATION])
        cuts = {int(index): [(one["profile"], one["start"]) for one in told[index]] for index in told}
        return make_layout(hardware, cuts)
    matrix = annotations.get(MATRIX_ANNOTATION, "")
    if not matrix.lstrip().startswith("{"):
        return {}
    by_uuid = {device.uuid: device.index for device in hardware.devices}
    found: dict[int, tuple[Instance, ...]] = {}
    for uuid, instances in (json.loads(matrix).get("mig") or {}).items():
        if uuid in by_uuid and instances:
            index = by_uuid[uuid]
            made = (Instance(index, one.get("start") or 0, one["profile"], one["uuid"]) for one in instances)
            found[index] = tuple(sorted(made))
    return found


def layout_text(layout: Layout) -> str:
    """The value of the layout annotation."""
    told = {
        str(index): [{"profile": one.profile, "start": one.start} for one in layout[index]]
        for index in sorted(layout)
    }
    return json.dumps(told, separators=(",", ":"))


def matrix_mig(layout: Layout, hardware: Hardware) -> Json:
    """The field "mig" of the matrix annotation."""
    return {
        hardware.devices[index].uuid: [
            {"profile": one.profile, "start": one.start, "uuid": one.uuid} for one in layout[index]
        ]
        for index in sorted(layout)
        if layout[index]
    }
