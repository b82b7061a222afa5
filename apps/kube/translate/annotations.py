"""Reads this project's two node annotations: the topology matrix and the holders of devices.

Anybody who may write a Node may write them, so each value is checked; what cannot be read gives a
sentence and None, never half a truth.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.topology_text import read_topology_text
from apps.kube.translate.values import Warn, brief, child, clean, entries, seconds_of, whole, whole_or_none
from apps.planner.inventory import Gpu, Holding, MigInstance, Topology

MATRIX = "topology.gpu.internal/matrix"
HOLDERS = "topology.gpu.internal/holders"
MOST_GPUS = 256
LONGEST_ANNOTATION = 256 * 1024  # what Kubernetes allows for all of an object's annotations


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """gpus: in driver order. topology: None if the matrix itself cannot be used."""

    gpus: tuple[Gpu, ...]
    topology: Topology | None


def read_matrix(value: str, warn: Warn) -> DeviceFacts | None:
    """The matrix annotation: our JSON, or the plain text of `nvidia-smi topo -m`."""
    if not value.lstrip().startswith("{"):
        found = read_topology_text(value, warn)
        return DeviceFacts(*found) if found else None
    document = _load(value, MATRIX, warn)
    if document is None:
        return None
    gpus = _read_gpus(document, warn)
    return DeviceFacts(gpus, _read_topology(document, gpus, warn)) if gpus else None


def read_holders(value: str, warn: Warn) -> tuple[tuple[Holding, ...], float] | None:
    """(holdings, when observed), or None if the annotation cannot be relied on."""
    document = _load(value, HOLDERS, warn)
    if document is None:
        return None
    observed_at = seconds_of(document.get("observed_at"))
    devices = document.get("devices")
    if observed_at is None or not isinstance(devices, dict):
        warn(f"the annotation {HOLDERS} lacks devices or a readable observed_at: holders are unknown")
        return None
    holdings: list[Holding] = []
    for device in devices:
        for holder in entries(devices, device):
            holding = _holding(device, holder)
            if holding is None:
                warn(f"the annotation {HOLDERS} has a bad holder of {brief(device)}: holders are unknown")
                return None
            holdings.append(holding)
    return tuple(holdings), observed_at


def _holding(device: str, holder: Mapping[str, Any]) -> Holding | None:
    uid = clean(holder.get("uid"), 100)
    milli = whole(holder.get("milli"), 1000)
    if not uid or not device or not 0 < milli <= 1000:
        return None
    memory = whole_or_none(holder.get("memory_mib"))
    return Holding(uid, clean(device, 100), milli, memory, clean(holder.get("container"), 253))


def _load(value: str, name: str, warn: Warn) -> Mapping[str, Any] | None:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        warn(f"the annotation {name} is no JSON")
        return None
    if not isinstance(document, dict) or document.get("version") != 1:
        warn(f"the annotation {name} is not of version 1")
        return None
    return document


def _read_gpus(document: Mapping[str, Any], warn: Warn) -> tuple[Gpu, ...]:
    found = entries(document, "gpus")
    indices = [entry.get("index") for entry in found]
    if not found or len(found) > MOST_GPUS or indices != list(range(len(found))):
        warn(f"the annotation {MATRIX} does not list GPUs 0, 1, 2, … in order: it is not used")
        return ()
    uuids = [clean(entry.get("uuid"), 100) for entry in found]
    named = [uuid for uuid in uuids if uuid]
    if len(set(named)) != len(named):
        warn(f"the annotation {MATRIX} names one UUID twice: it is not used")
        return ()
    layouts = child(document, "mig")
    return tuple(
        Gpu(
            index=index,
            uuid=uuids[index],
            memory_mib=whole_or_none(entry.get("memory_mib")),
            numa=_numa(entry.get("numa")),
            pcie_switch=clean(entry.get("pcie_switch"), 100) or None,
            bus_id=clean(entry.get("bus_id"), 40),
            healthy=entry.get("healthy") is not False,
            instances=_instances(layouts, uuids[index]),
        )
        for index, entry in enumerate(found)
    )


def _numa(value: object) -> int | None:
    found = whole_or_none(value)
    return found if found is not None and 0 <= found < 4096 else None


def _instances(layouts: Mapping[str, Any], uuid: str) -> tuple[MigInstance, ...]:
    return tuple(
        MigInstance(
            profile=clean(entry.get("profile"), 40),
            start_slice=_numa(entry.get("start")),
            uuid=clean(entry.get("uuid"), 100),
        )
        for entry in entries(layouts, uuid)
        if uuid
    )


def _read_topology(document: Mapping[str, Any], gpus: tuple[Gpu, ...], warn: Warn) -> Topology | None:
    links = _grid(document.get("links"), rows=len(gpus), columns=len(gpus))
    if links is None:
        warn(f"the annotation {MATRIX} has no {len(gpus)} × {len(gpus)} matrix of links: they are unknown")
        return None
    nics = tuple((clean(nic.get("name"), 100), _numa(nic.get("numa"))) for nic in entries(document, "nics"))
    return Topology(
        links=links,
        nics=nics,
        nic_links=_grid(document.get("nic_links"), rows=len(gpus), columns=len(nics)) or (),
        source=clean(document.get("source"), 40),
        observed_at=seconds_of(document.get("observed_at")),
    )


def _grid(value: object, *, rows: int, columns: int) -> tuple[tuple[str, ...], ...] | None:
    if not isinstance(value, list) or len(value) != rows:
        return None
    if not all(isinstance(row, list) and len(row) == columns for row in value):
        return None
    if not all(isinstance(code, str) and len(code) <= 20 for row in value for code in row):
        return None
    return tuple(tuple(clean(code) for code in row) for row in value)
