"""Reads the matrix that this project's node agent writes as JSON (topology.gpu.internal/matrix)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.topology.facts import clean, entries, node_number, seconds_of
from apps.kube.topology.reading import MOST_GPUS, Cells, Reading

MATRIX = "topology.gpu.internal/matrix"
LONGEST_CODE = 20
UNKNOWN_LINKS = "the annotation {name} has no {size} × {size} matrix of links: they are unknown"


def read_annotation(document: Mapping[str, Any]) -> Reading:
    """`error` says why nothing of it can be used; without links the GPUs are still read."""
    if document.get("version") != 1:
        return _refused(f"the annotation {MATRIX} is not of version 1")
    gpus = entries(document, "gpus")
    indices = [entry.get("index") for entry in gpus]
    if not gpus or len(gpus) > MOST_GPUS or indices != list(range(len(gpus))):
        return _refused(f"the annotation {MATRIX} does not list GPUs 0, 1, 2, … in order: it is not used")
    uuids = tuple(clean(entry.get("uuid"), 100) for entry in gpus)
    named = [uuid for uuid in uuids if uuid]
    if len(set(named)) != len(named):
        return _refused(f"the annotation {MATRIX} names one UUID twice: it is not used")
    nics = entries(document, "nics")[:MOST_GPUS]
    links, warnings, whole = _links(document.get("links"), len(gpus))
    numa = tuple(node_number(entry.get("numa")) for entry in gpus)
    return Reading(
        gpus=len(gpus),
        names=tuple(f"GPU{at}" for at in range(len(gpus))),
        links=links,
        numa=numa if any(node is not None for node in numa) else None,
        nics=len(nics),
        nic_names=tuple(clean(nic.get("name"), 100) for nic in nics),
        nic_numa=tuple(node_number(nic.get("numa")) for nic in nics),
        nic_links=_grid(document.get("nic_links"), rows=len(gpus), columns=len(nics)) or (),
        uuids=uuids,
        bus_ids=tuple(clean(entry.get("bus_id"), 40) for entry in gpus),
        pcie_switches=tuple(clean(entry.get("pcie_switch"), 100) or None for entry in gpus),
        source=clean(document.get("source"), 40),
        observed_at=seconds_of(document.get("observed_at")),
        complete=whole,
        warnings=tuple(warnings),
    )


def _refused(why: str) -> Reading:
    return Reading(nics=None, complete=False, error=why)


def _links(value: object, size: int) -> tuple[Cells | None, list[str], bool]:
    """(links, what to say, whether all are told). A cell of null or "" is unknown."""
    links = _grid(value, rows=size, columns=size)
    if links is None:
        return None, [UNKNOWN_LINKS.format(name=MATRIX, size=size)], False
    if any(row[at] not in ("X", "x", "", "SELF") for at, row in enumerate(links)):
        return None, [f"the annotation {MATRIX} ties a GPU to itself: its links are unknown"], False
    links = tuple(
        tuple("X" if a == b else "" if code in ("X", "x") else code for b, code in enumerate(row))
        for a, row in enumerate(links)
    )
    missing = sum(1 for row in links for code in row if not code)
    told = [f"the annotation {MATRIX} leaves {missing} links out: they are unknown"] if missing else []
    return links, told, not missing


def _grid(value: object, *, rows: int, columns: int) -> Cells | None:
    if not isinstance(value, list) or len(value) != rows:
        return None
    if not all(isinstance(row, list) and len(row) == columns for row in value):
        return None
    try:
        # A matrix has a handful of different codes, many times each.
        codes = {code: clean(code) for code in {code for row in value for code in row}}
    except TypeError:
        return None
    if not all(code is None or (isinstance(code, str) and len(code) <= LONGEST_CODE) for code in codes):
        return None
    return tuple(tuple(map(codes.__getitem__, row)) for row in value)
