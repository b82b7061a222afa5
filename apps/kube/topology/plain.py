"""Reads the text that a tool printed: finds its tables, takes the one of links and what stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from apps.kube.topology.matrix import P2P, read_matrix
from apps.kube.topology.reading import MOST_GPUS, Reading
from apps.kube.topology.rocm import find_numa, read_numbers
from apps.kube.topology.tables import Table, find_legend, find_nic_names, find_tables
from apps.kube.topology.text import split_lines
from apps.kube.topology.vendors import tell_declared, tell_refusal, tell_vendor
from apps.kube.topology.words import BUS_ADDRESS, is_affinity_shaped, number_of

NOT_LINKS = ("weight", "hops", "access", "numa bw", "coher", "atomics", "dma", "bi-dir", "bandwidth", "p2p")
NO_TABLE = "no topology: neither a table of links nor lines of NUMA nodes are in it"


def read_plain(text: str) -> Reading:
    """Never raises. `error` says why it is no topology."""
    lines, is_cut = split_lines(text)
    tables = find_tables(lines)
    legend, nic_names = find_legend(lines), find_nic_names(lines)
    declared, numa = tell_declared(lines), find_numa(lines)
    found = _best([read_matrix(table, legend, nic_names, declared) for table in _of_links(tables)])
    if found is None or (found.error and numa):
        found = _without_links(tables, numa)
    if found is None or (found.error and found.error != P2P and not found.gpus):
        refusal = tell_refusal(lines)
        error = refusal or (found.error if found is not None else NO_TABLE)
        return Reading(vendor=_vendor(lines, found), nics=None, complete=False, error=error)
    found = _with_numbers(_with_numa(found, numa), tables)
    if is_cut:
        warning = "the text is too long: what stands behind the limit is not read"
        found = replace(found, complete=False, warnings=(*found.warnings, warning))
    return replace(found, vendor=_vendor(lines, found))


def _of_links(tables: Sequence[Table]) -> list[Table]:
    """Those whose heading does not say that they hold something else, and whose cells are words."""
    return [
        table
        for table in tables
        if not any(word in table.section for word in NOT_LINKS)
        and not ("link type" not in table.section and _holds_numbers(table))
    ]


def _holds_numbers(table: Table) -> bool:
    firsts = [row.words[:2] for row in table.rows if row.words]
    return bool(firsts) and all(is_affinity_shaped(word.text) for words in firsts for word in words)


def _best(readings: Sequence[Reading]) -> Reading | None:
    """The first whole one, else the first with links. A second machine in the same text is told, not mixed
    in."""
    if not readings:
        return None
    usable = [one for one in readings if not one.error]
    found = next((one for one in usable if one.complete), usable[0] if usable else readings[0])
    others = [one for one in usable if one.links is not None and _is_another(one, found)]
    if not others:
        return found
    warnings = [*found.warnings, f"the text holds {len(others) + 1} different tables: this is one of them"]
    largest = max(one.gpus or 0 for one in usable)
    if (found.gpus or 0) < largest and not found.complete:
        warnings.append(f"another speaks of {largest} GPUs")
    return replace(found, warnings=tuple(warnings))


def _is_another(one: Reading, found: Reading) -> bool:
    """Two machines may have the same links, and other network cards or CPUs."""
    return (one.links, one.nic_links, one.cpu_affinity) != (found.links, found.nic_links, found.cpu_affinity)


def _without_links(tables: Sequence[Table], numa: dict[int, int | None]) -> Reading | None:
    """Only numbers or only NUMA nodes: the GPUs are there, how they are linked is not told."""
    sure = [table for table in tables if not (table.header_ends_text and not table.rows)]
    names = max((table.names_of("gpu") for table in sure), key=len, default=[])
    size = max(len(names), _size_of(numa))
    if not size or size > MOST_GPUS:
        return None
    warning = "the text tells no links between the GPUs: they are unknown"
    told = tuple(names) if len(names) == size else tuple(f"GPU{at}" for at in range(size))
    return Reading(gpus=size, names=told, links=None, complete=False, warnings=(warning,))


def _size_of(numa: dict[int, int | None]) -> int:
    return max(numa, default=-1) + 1


def _with_numa(found: Reading, numa: dict[int, int | None]) -> Reading:
    if not numa or found.error:
        return found
    numbers = [number_of(name) for name in found.names]
    places = numbers if None not in numbers else list(range(len(found.names)))
    missing = sorted(set(numa) - set(places))
    nodes = tuple(numa.get(place) if place is not None else None for place in places)
    if missing:
        warnings = (*found.warnings, f"NUMA lines speak of {len(missing)} GPUs that the table does not have")
        found = replace(found, complete=False, warnings=warnings)
    return replace(found, numa=nodes)


def _with_numbers(found: Reading, tables: Sequence[Table]) -> Reading:
    weights = next((table for table in tables if "weight" in table.section), None)
    hops = next((table for table in tables if "hops" in table.section), None)
    addresses = tuple(name for name in found.names if ":" in name and BUS_ADDRESS)
    return replace(
        found,
        weights=read_numbers(weights, found.names) if weights else None,
        hops=read_numbers(hops, found.names) if hops else None,
        bus_ids=addresses if len(addresses) == len(found.names) else (),
    )


def _vendor(lines: Sequence[str], found: Reading | None) -> str:
    codes = {code for row in (found.links or () if found else ()) for code in row}
    return tell_vendor(lines, found.names if found else (), codes)
