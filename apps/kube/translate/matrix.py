"""The node's own word on its GPUs and their links: the matrix annotation, in whatever form it stands there.

`apps.kube.topology` reads it; here it becomes the planner's facts, with what only our own JSON tells
(health, memory, MIG instances).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.kube.topology.annotation import MATRIX
from apps.kube.topology.documents import DEEPEST, read_document, read_topology
from apps.kube.topology.hami import SCORES, read_scores
from apps.kube.topology.reading import Cells, Reading
from apps.kube.translate.values import Warn, child, clean, entries, whole_or_none
from apps.planner.inventory import Gpu, MigInstance, Topology


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """gpus: in driver order. topology: None if the matrix itself cannot be used."""

    gpus: tuple[Gpu, ...]
    topology: Topology | None


def read_matrix(value: str, warn: Warn) -> DeviceFacts | None:
    """The matrix annotation: our JSON, a tool's, or the plain text of `nvidia-smi topo -m` and its relatives.

    A cut table keeps what can be read of it; None if nothing can.
    """
    document, is_ours = None, False
    if value.lstrip()[:1] == "{":
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            warn(f"the annotation {MATRIX} is no JSON")
            return None
        is_ours = isinstance(document, dict) and ("version" in document or not document)
    reading = read_topology(value) if document is None else read_document(document, DEEPEST)
    if reading.error:
        warn(reading.error if MATRIX in reading.error else f"the annotation {MATRIX}: {reading.error}")
        return None
    for sentence in reading.warnings:
        warn(sentence if MATRIX in sentence else f"the annotation {MATRIX}: {sentence}")
    own = document if is_ours and isinstance(document, dict) else {}
    return DeviceFacts(_gpus(reading, own), topology_of(reading))


def topology_of(reading: Reading) -> Topology | None:
    """None where no link between two GPUs is told at all."""
    if reading.links is None or not tells_any(reading.links):
        return None
    numas = (*reading.nic_numa, *[None] * (len(reading.nic_names) - len(reading.nic_numa)))
    return Topology(
        links=reading.links,
        nics=tuple((clean(name, 100), numa) for name, numa in zip(reading.nic_names, numas, strict=True)),
        nic_links=reading.nic_links,
        source=reading.source,
        observed_at=reading.observed_at,
        complete=reading.complete,
    )


def read_hami_links(annotations: Mapping[str, str], gpus: Sequence[Gpu], warn: Warn) -> Topology | None:
    """What HAMi's scores tell of the links between these GPUs, which have to be known by UUID."""
    if SCORES not in annotations or not gpus or not all(gpu.uuid for gpu in gpus):
        return None
    reading = read_scores(annotations[SCORES], [gpu.uuid for gpu in gpus])
    if reading is None:
        warn(f"the annotation {SCORES} cannot be read: how the GPUs are linked is unknown")
        return None
    if not tells_any(reading.links or ()):
        warn(f"the annotation {SCORES} speaks of no pair of these GPUs: how they are linked is unknown")
        return None
    return topology_of(reading)


def tells_any(links: Cells) -> bool:
    return len(links) == 1 or any(code not in ("", "X") for row in links for code in row)


def _gpus(reading: Reading, document: Mapping[str, Any]) -> tuple[Gpu, ...]:
    size = reading.gpus or 0
    own = entries(document, "gpus")
    layouts = child(document, "mig")

    def at(values: Sequence[Any] | None, place: int, default: Any) -> Any:
        return values[place] if values and place < len(values) else default

    return tuple(
        Gpu(
            index=place,
            uuid=(uuid := at(reading.uuids, place, "")),
            memory_mib=whole_or_none(own[place].get("memory_mib")) if own else None,
            numa=at(reading.numa, place, None),
            pcie_switch=at(reading.pcie_switches, place, None),
            bus_id=at(reading.bus_ids, place, ""),
            healthy=not own or own[place].get("healthy") is not False,
            instances=_instances(layouts, uuid),
        )
        for place in range(size)
    )


def _instances(layouts: Mapping[str, Any], uuid: str) -> tuple[MigInstance, ...]:
    if not uuid or uuid not in layouts:
        return ()
    return tuple(
        MigInstance(
            profile=clean(entry.get("profile"), 40),
            start_slice=_slice(entry.get("start")),
            uuid=clean(entry.get("uuid"), 100),
        )
        for entry in entries(layouts, uuid)
    )


def _slice(value: object) -> int | None:
    found = whole_or_none(value) if value is not None else None
    return found if found is not None and 0 <= found < 4096 else None
