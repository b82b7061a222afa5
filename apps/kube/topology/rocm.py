"""What rocm-smi and its relatives (hy-smi) tell beside links: NUMA nodes, one line a GPU, and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apps.kube.topology.reading import MOST_GPUS, Numbers
from apps.kube.topology.tables import Table

NUMA_LINE = re.compile(
    r"(?<!\w)(?:GPU|HCU|DCU|NPU|Card|card|Device)\s{0,3}\[?\s{0,3}(\d{1,5})\s{0,3}\]?\s{0,40}:\s{0,8}"
    r"\(Topology\)\s{0,4}Numa (Node|Affinity)\s{0,4}:?\s{0,4}(-?\d{1,5}|N/A|None)?",
    re.IGNORECASE,
)
NUMBER = re.compile(r"\d{1,9}")


def find_numa(lines: Sequence[str]) -> dict[int, int | None]:
    """GPU -> NUMA node, None where the tool says -1 or nothing."""
    found: dict[int, int | None] = {}
    for line in lines:
        if "opology" not in line:
            continue
        told = NUMA_LINE.search(line)
        if told is None or (len(found) >= MOST_GPUS and int(told.group(1)) not in found):
            continue
        gpu, is_node = int(told.group(1)), told.group(2).lower() == "node"
        node = told.group(3) or ""
        value = int(node) if NUMBER.fullmatch(node) and int(node) < 4096 else None
        if is_node or gpu not in found:
            found[gpu] = value if is_node else None
    return found


def read_numbers(table: Table, names: Sequence[str]) -> Numbers | None:
    """The weights or hops of a table of numbers, None where a cell is none; for GPUs of these names only."""
    header = table.names_of("gpu")
    if tuple(header) != tuple(names):
        return None
    rows = {row.name: [word.text for word in row.words] for row in table.rows}
    numbers = []
    for name in names:
        cells = rows.get(name, [])
        cells = cells if len(cells) == len(names) else [""] * len(names)
        numbers.append(tuple(int(cell) if NUMBER.fullmatch(cell) else None for cell in cells))
    return tuple(numbers)
