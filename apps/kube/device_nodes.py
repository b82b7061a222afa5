"""A node as Koordinator's Device object tells of it, where the Node itself was not dumped."""

from __future__ import annotations

from typing import Any

from apps.kube.gateway import Json
from apps.kube.topology.placing import read_device_cr
from apps.kube.translate.values import child

UNIT = 100
MIB = 2**20


def node_of_device(device: Json) -> Json | None:
    """Its name, labels and the amounts that Koordinator would offer; None for one without GPUs."""
    seats = read_device_cr(device)
    if not seats:
        return None
    metadata = child(device, "metadata")
    capacity: dict[str, Any] = {"koordinator.sh/gpu": UNIT * len(seats)}
    healthy = [seat for seat in seats if seat.healthy]
    allocatable: dict[str, Any] = {"koordinator.sh/gpu": UNIT * len(healthy)}
    if all(seat.memory_mib for seat in seats):
        name = "koordinator.sh/gpu-memory"
        capacity[name] = MIB * sum(seat.memory_mib or 0 for seat in seats)
        allocatable[name] = MIB * sum(seat.memory_mib or 0 for seat in healthy)
    return {
        "metadata": {"name": metadata.get("name"), "labels": dict(child(metadata, "labels"))},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }
