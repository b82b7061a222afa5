"""What a text about the links of one machine's GPUs says, whatever tool or program wrote it."""

from __future__ import annotations

from dataclasses import dataclass

Cells = tuple[tuple[str, ...], ...]
Numbers = tuple[tuple[int | None, ...], ...]
MOST_GPUS = 256


@dataclass(frozen=True, slots=True)
class Reading:
    """None always means "not told". Everything per GPU is in the order of the GPUs' columns.

    vendor: "nvidia", "amd", "ascend", …; "" if unknown. gpus: how many the text speaks of, read or not.
    names: what the text calls them ("GPU0", "Phy-ID12", a bus address). links: raw codes, "X" on the
    diagonal, "" where a cell is missing; None where the text has no table of links at all.
    numa: CPU NUMA nodes. gpu_numa_id: the NUMA node of a GPU's own memory. cpu_affinity: CPU lists as
    written. *_raw: the same cells before anything was judged. nic_links: a row per GPU, a code per NIC, "" if
    missing. complete: False for a cut or damaged table. error: why this is no topology, "" if it is one.
    source: who says so, as `inventory.Topology` has it.
    """

    vendor: str = ""
    gpus: int | None = None
    names: tuple[str, ...] = ()
    links: Cells | None = None
    numa: tuple[int | None, ...] | None = None
    numa_raw: tuple[str, ...] | None = None
    cpu_affinity: tuple[str | None, ...] | None = None
    cpu_affinity_raw: tuple[str, ...] | None = None
    gpu_numa_id: tuple[int | None, ...] | None = None
    nics: int | None = 0
    nic_names: tuple[str, ...] = ()
    nic_numa: tuple[int | None, ...] = ()
    nic_links: Cells = ()
    hops: Numbers | None = None
    weights: Numbers | None = None
    uuids: tuple[str, ...] = ()
    bus_ids: tuple[str, ...] = ()
    pcie_switches: tuple[str | None, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    source: str = "text"
    observed_at: float | None = None
    complete: bool = True
    warnings: tuple[str, ...] = ()
    error: str = ""
