"""The columns behind a link table: CPU lists, CPU NUMA nodes, and the NUMA node of a GPU's own memory.

Their order and number differ by tool; a blank between two of them may be lost. What is in doubt is None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

CPU_LIST = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")
NUMBER = re.compile(r"\d{1,4}")
UNTOLD = frozenset({"", "N/A", "NA", "None", "-", "-1", "n/a"})
MOST_CPUS = 65_536


@dataclass(frozen=True, slots=True)
class Affinities:
    """One value per row; None for a column that the header does not have."""

    cpu: tuple[str | None, ...] | None
    cpu_raw: tuple[str, ...] | None
    numa: tuple[int | None, ...] | None
    numa_raw: tuple[str, ...] | None
    gpu_numa: tuple[int | None, ...] | None
    warnings: tuple[str, ...]


def read_affinities(
    kinds: Sequence[str], tails: Sequence[Sequence[str]], tabbed: Sequence[bool]
) -> Affinities:
    """kinds: the titles behind the codes, in their order. tails: the cells behind the codes, row by row."""
    warnings: list[str] = []
    rows = [_assign(kinds, tail, is_tabbed) for tail, is_tabbed in zip(tails, tabbed, strict=True)]
    fused = _part_fused(rows)
    if fused:
        warnings.append(fused)
    cpu_raw = tuple(row.get("cpu", "") for row in rows) if "cpu" in kinds else None
    numa_raw = tuple(row.get("numa", "") for row in rows) if "numa" in kinds else None
    own_raw = [row.get("gpu-numa", "") for row in rows]
    cpu = _cpu_lists(cpu_raw, warnings) if cpu_raw is not None else None
    gpu_numa = tuple(_node(text) for text in own_raw) if "gpu-numa" in kinds else None
    numa = _numa_nodes(numa_raw, own_raw, warnings) if numa_raw is not None else None
    return Affinities(cpu, cpu_raw, numa, numa_raw, gpu_numa, tuple(warnings))


def _assign(kinds: Sequence[str], tail: Sequence[str], is_tabbed: bool) -> dict[str, str]:
    """Which cell stands under which title."""
    cells = [cell.strip() for cell in tail]
    if is_tabbed:
        front = [kind for kind in kinds if kind != "gpu-numa"]
        found = dict(zip(front, cells, strict=False))
        rest = [cell for cell in cells[len(front) :] if cell]
        if "gpu-numa" in kinds and rest:
            found["gpu-numa"] = rest[0]
        return found
    cells = [cell for cell in cells if cell]
    if len(cells) >= len(kinds):
        return dict(zip(kinds, cells, strict=False))
    found = {}
    left = list(kinds)
    if left and left[-1] == "gpu-numa" and cells and (cells[-1] == "N/A" or len(cells) == len(left) - 1 == 2):
        found["gpu-numa"] = cells.pop() if cells[-1] in UNTOLD else ""
        left.pop()
    if len(cells) < len(left) and cells:
        found["?"] = "1"
    found.update(zip(left, cells, strict=False))
    return {kind: text for kind, text in found.items() if text}


def _part_fused(rows: list[dict[str, str]]) -> str:
    """Mends "0-31,64-950" (CPUs 0-31,64-95 and node 0), where the whole rows show what a list looks like."""
    doubtful = [row for row in rows if row.pop("?", "") and "cpu" in row and not row.get("numa")]
    if not doubtful:
        return ""
    shapes = {_shape(row["cpu"]) for row in rows if row.get("numa") and row.get("cpu")} - {None}
    told = 0
    for row in doubtful:
        parts = [
            (row["cpu"][:-size], row["cpu"][-size:])
            for size in (1, 2)
            if _shape(row["cpu"][:-size]) in shapes and row["cpu"][-size:].isdecimal()
        ]
        if len(parts) == 1 and _shape(row["cpu"]) not in shapes:
            row["cpu"], row["numa"] = parts[0]
            told += 1
        elif len(row["cpu"]) > 1:
            row["raw-cpu"] = row.pop("cpu")
    rest = len(doubtful) - told
    words = f"in {told} rows CPU list and NUMA node ran together: parted as in the other rows" if told else ""
    unknown = f"in {rest} rows a cell of the affinities is missing: which one is not certain" if rest else ""
    return "; ".join(filter(None, (words, unknown)))


def _shape(text: str) -> tuple[int, ...] | None:
    """How many CPUs each range of the list has."""
    if not CPU_LIST.fullmatch(text):
        return None
    sizes = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        sizes.append(int(last or first) - int(first) + 1)
    return tuple(sizes) if all(0 < size <= MOST_CPUS for size in sizes) else None


def _cpu_lists(raw: Sequence[str], warnings: list[str]) -> tuple[str | None, ...]:
    """One damaged list makes the others doubtful too: what cut its front may have cut theirs."""
    told = [text for text in raw if text not in UNTOLD]
    if any(_shape(text) is None for text in told):
        warnings.append("lists of CPUs are damaged: none of them is used")
        return (None,) * len(raw)
    return tuple(None if text in UNTOLD else text for text in raw)


def _numa_nodes(raw: Sequence[str], own: Sequence[str], warnings: list[str]) -> tuple[int | None, ...]:
    singles = {text for text in raw if NUMBER.fullmatch(text)}
    nodes = tuple(_numa_node(text, own_text, singles) for text, own_text in zip(raw, own, strict=True))
    wide = sorted(
        {text for text, node in zip(raw, nodes, strict=True) if node is None and text not in UNTOLD}
    )
    if wide:
        warnings.append(f"the NUMA affinity {', '.join(wide[:3])} names no single node: it is unknown there")
    return nodes


def _numa_node(text: str, own: str, singles: set[str]) -> int | None:
    """ "0,5-11": the CPU's node and the nodes without CPUs that a GPU's memory makes. "0-7": any node."""
    if NUMBER.fullmatch(text):
        return int(text)
    first, _, rest = text.partition(",")
    if not NUMBER.fullmatch(first) or not CPU_LIST.fullmatch(rest):
        return None
    has_own = NUMBER.fullmatch(own) is not None
    return int(first) if (has_own or "-" in rest) and not set(rest.split(",")) & singles else None


def _node(text: str) -> int | None:
    return int(text) if NUMBER.fullmatch(text) else None
