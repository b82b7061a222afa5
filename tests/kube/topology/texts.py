"""Tables as the tools print them, drawn from what a test means to say."""

from __future__ import annotations

from collections.abc import Sequence

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def links(size: int, code: str = "NV6") -> list[list[str]]:
    return [["X" if a == b else code for b in range(size)] for a in range(size)]


def hives(*sizes: int, inside: str = "NV4", between: str = "SYS") -> list[list[str]]:
    home = [hive for hive, size in enumerate(sizes) for _ in range(size)]
    return [
        ["X" if a == b else inside if home[a] == home[b] else between for b in range(len(home))]
        for a in range(len(home))
    ]


def table(
    codes: Sequence[Sequence[str]],
    *,
    nics: Sequence[str] = (),
    nic_codes: Sequence[Sequence[str]] = (),
    cpu: Sequence[str] | None = None,
    numa: Sequence[str] | None = None,
    own: Sequence[str] | None = None,
    word: str = "GPU",
    tabs: bool = False,
    nic_rows: bool = True,
) -> str:
    """What `nvidia-smi topo -m` prints. nic_codes: a row per GPU."""
    names = [f"{word}{at}" for at in range(len(codes))]
    titles = [
        title
        for title, cells in (("CPU Affinity", cpu), ("NUMA Affinity", numa), ("GPU NUMA ID", own))
        if cells is not None
    ]
    rows = [["", *names, *nics, *titles]]
    for at, name in enumerate(names):
        cells = [f" {code} " if code == "X" else code for code in codes[at]]
        cells += list(nic_codes[at]) if nics else []
        tail = [column[at] for column in (cpu, numa) if column is not None]
        if own is not None:
            tail += ["", own[at]] if tabs else [own[at]]
        rows.append([name, *cells, *tail])
    for at, nic in enumerate(nics if nic_rows else ()):
        own_cells = [" X " if other == at else "SYS" for other in range(len(nics))]
        rows.append([nic, *(row[at] for row in nic_codes), *own_cells])
    if tabs:
        return "\n".join("\t".join(row) for row in rows) + "\n"
    widths = [8] * (1 + len(names) + len(nics)) + [16] * 3
    return (
        "\n".join(
            "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
            for row in rows
        )
        + "\n"
    )
