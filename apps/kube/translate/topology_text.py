"""Reads the table that `nvidia-smi topo -m` prints, for nodes whose agent passes it on as it is.

The plain, whole table only: a cut or damaged one gives a warning and None.
"""

from __future__ import annotations

import re

from apps.kube.translate.values import Warn, clean
from apps.planner.inventory import Gpu, Topology

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
GPU_NAME = re.compile(r"^GPU(\d+)$")
NIC_NAME = re.compile(r"^(NIC\d+|mlx\d+_\d+|[a-z]+\d*_\d+)$")
NIC_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


def read_topology_text(text: str, warn: Warn) -> tuple[tuple[Gpu, ...], Topology] | None:
    """(GPUs in driver order, topology with source "text"), or None with a warning."""
    lines = [line for line in ANSI.sub("", text).splitlines() if line.strip()]
    header = next((line for line in lines if "GPU0" in line.split()[:1]), None)
    if header is None:
        warn("the topology text has no header that starts with GPU0")
        return None
    columns = _columns(header)
    rows = {cells[0]: cells[1:] for line in lines if len(cells := line.split()) > 1 and line != header}
    gpu_columns = [index for index, name in enumerate(columns) if GPU_NAME.match(name)]
    names = [columns[index] for index in gpu_columns]
    if any(len(rows.get(name, ())) < len(columns) for name in names):
        warn("the topology text is cut: a row is missing or shorter than its header")
        return None
    nic_columns = [index for index in range(len(columns)) if index not in gpu_columns]
    legend = dict(NIC_LEGEND.findall(text))
    topology = Topology(
        links=tuple(tuple(clean(rows[name][index], 20) for index in gpu_columns) for name in names),
        nics=tuple((clean(legend.get(columns[index], columns[index]), 100), None) for index in nic_columns),
        nic_links=tuple(tuple(clean(rows[name][index], 20) for index in nic_columns) for name in names),
        source="text",
    )
    has_numa = "NUMA Affinity" in header
    gpus = tuple(
        Gpu(index=position, numa=_numa(rows[name][len(columns) :]) if has_numa else None)
        for position, name in enumerate(names)
    )
    return gpus, topology


def _columns(header: str) -> list[str]:
    columns: list[str] = []
    for name in header.split():
        if not (GPU_NAME.match(name) or NIC_NAME.match(name)):
            break
        columns.append(name)
    return columns


def _numa(after: list[str]) -> int | None:
    """The cells behind the matrix: CPU affinity, NUMA affinity, perhaps the GPU's own NUMA id."""
    return int(after[1]) if len(after) > 1 and after[1].isdecimal() and len(after[1]) < 5 else None
