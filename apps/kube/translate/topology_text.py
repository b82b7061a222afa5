"""Reads the table that `nvidia-smi topo -m` (or ROCm's, of link types) prints, passed on as it is.

The plain, whole table only: a cut or damaged one, or another table, gives a warning and None.
"""

from __future__ import annotations

import re

from apps.kube.translate.values import Warn, clean
from apps.planner.inventory import Gpu, Topology

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
GPU_NAME = re.compile(r"^GPU(\d+)$")
NIC_NAME = re.compile(r"^(NIC\d+|mlx\d+_\d+|[a-z]+\d*_\d+)$")
LINK_TYPES = re.compile(
    r"^=+ *Link Type between two GPUs *=+$(?P<table>.*?)(?=^=|\Z)", re.MULTILINE | re.DOTALL
)
ROCM_NUMA = re.compile(r"^GPU ?\[?(\d+)\]?\s*: \(Topology\) Numa Node: (\d{1,4})\s*$", re.MULTILINE)
CAPABILITIES = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
"""What `nvidia-smi topo -p2p` says in a table of the same form: rights, not links."""
NIC_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


def read_topology_text(text: str, warn: Warn) -> tuple[tuple[Gpu, ...], Topology] | None:
    """(GPUs in driver order, topology with source "text"), or None with a warning."""
    text = ANSI.sub("", text)
    rocm = LINK_TYPES.search(text)
    lines = [line for line in (rocm["table"] if rocm else text).splitlines() if line.strip()]
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
    links = tuple(tuple(_code(rows[name][index]) for index in gpu_columns) for name in names)
    fault = _fault_of(links, "0" if rocm else "X")
    if fault:
        warn(f"the topology text is no table of links: {fault}")
        return None
    if rocm:
        links = tuple(tuple("X" if code == "0" else code for code in row) for row in links)
    nic_columns = [index for index in range(len(columns)) if index not in gpu_columns]
    legend = dict(NIC_LEGEND.findall(text))
    topology = Topology(
        links=links,
        nics=tuple((clean(legend.get(columns[index], columns[index]), 100), None) for index in nic_columns),
        nic_links=tuple(tuple(clean(rows[name][index], 20) for index in nic_columns) for name in names),
        source="text",
    )
    has_numa = "NUMA Affinity" in header
    told = {f"GPU{index}": int(numa) for index, numa in ROCM_NUMA.findall(text)} if rocm else {}
    gpus = tuple(
        Gpu(index=position, numa=_numa(rows[name][len(columns) :]) if has_numa else told.get(name))
        for position, name in enumerate(names)
    )
    return gpus, topology


def _code(cell: str) -> str:
    return "X" if cell == "x" else clean(cell, 20)


def _fault_of(links: tuple[tuple[str, ...], ...], itself: str) -> str:
    """Why the cells cannot be links; "" if they can. itself: what stands on the diagonal."""
    for at, row in enumerate(links):
        if row[at] != itself:
            return f"GPU{at} is {row[at]!r} to itself"
        for other, code in enumerate(row):
            if other != at and (code in CAPABILITIES or code == itself or code.isdecimal()):
                return f"GPU{at} and GPU{other} are tied by {code!r}"
    return ""


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
