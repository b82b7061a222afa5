"""How fast the links between GPUs are, by GPU generation: GB/s per link code.

A link's rate is always said with its direction, for makers count differently: NVIDIA states NVLink both ways
(A100: 600 GB/s), PCIe is stated one way (Gen4 x16: 32 GB/s). Both are kept here. They are the rates of the
link itself, never of a measured copy; a path across CPUs (SYS) is at most as fast as the PCIe at its ends.

Sources, by row of `GENERATIONS`:
- P100, V100, A100, A30, A40, H100 (SXM, PCIe, NVL), H200, B200: NVIDIA's data sheets and architecture papers
  ("NVLink: … GB/s", both ways: lanes × rate per lane: 40 for NVLink 1, 50 for 2 to 4, 100 for 5).
- A800, H800, H20: the data sheets of the models for export (NVLink cut to 8 lanes, 400 GB/s; H20 keeps 900).
- RTX and Quadro with a bridge: product pages (A6000, A5000, 3090: 112.5 GB/s over 4 lanes; Turing: 50 per
lane).
- MI100, MI250X, MI300X, MI300A: AMD's data sheets and CDNA papers (a link of Infinity Fabric: 92, 100, 128
  GB/s both ways; MI300A joins each pair by two links).
- Ascend 910B: Huawei's figures for the Atlas 800T A2 (HCCS, 392 GB/s per card over 7 peers).
- PCIe x16: PCI-SIG, one way 16, 32, 64, 128 GB/s for generations 3 to 6.
A model that is not here has no rate: a guess would be worse than none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PCIE_ONE_WAY = {3: 16.0, 4: 32.0, 5: 64.0, 6: 128.0}
PCIE_CODES = frozenset({"PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "PSB", "PCIE"})
LANES = re.compile(r"NV(\d{1,3})")
FABRIC_CODES = frozenset({"XGMI", "HCCS"})


@dataclass(frozen=True, slots=True)
class Generation:
    """per_lane: GB/s both ways of one NVLink. lanes: all of a GPU together. fabric: GB/s both ways between
    two
    GPUs over another maker's fabric. pcie: generation of its x16 slot or socket."""

    name: str
    pcie: int
    per_lane: float = 0.0
    lanes: int = 0
    fabric: float = 0.0


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """GB/s. stated: the figure as its maker states it, with the direction in words."""

    one_way: float
    both_ways: float
    stated: str


GENERATIONS: tuple[tuple[str, Generation], ...] = (
    (r"\b[G]?B[23]00\b|\bB100\b", Generation("Blackwell, NVLink 5", 5, 100.0, 18)),
    (r"\bH800\b", Generation("H800, NVLink 4 cut to 8 lanes", 5, 50.0, 8)),
    (r"\bA800\b", Generation("A800, NVLink 3 cut to 8 lanes", 4, 50.0, 8)),
    (r"\bH100\W+(?:PCIE|NVL)|\bH200\W+NVL|\bH800\W+NVL", Generation("Hopper on PCIe, bridged", 5, 50.0, 12)),
    (r"\bG?H[12]00\b|\bH20\b", Generation("Hopper, NVLink 4", 5, 50.0, 18)),
    (r"\bA100\b", Generation("A100, NVLink 3", 4, 50.0, 12)),
    (r"\bA30\b", Generation("A30, NVLink 3 bridged", 4, 50.0, 4)),
    (r"\bA40\b|\bA[56]000\b|\bA4500\b|\bA5500\b|\b3090\b", Generation("Ampere with a bridge", 4, 28.125, 4)),
    (r"\bV100\b", Generation("V100, NVLink 2", 3, 50.0, 6)),
    (r"\bP100\b", Generation("P100, NVLink 1", 3, 40.0, 4)),
    (r"\bRTX\W?[68]000\b(?!\W*ADA)|\bTITAN RTX\b|\b2080\b|\bQUADRO RTX\b",
     Generation("Turing, bridged", 3, 50.0, 2)),
    (r"\bT4G?\b|\bP40?\b|\bP4\b|\bT10\b", Generation("without NVLink, PCIe 3", 3)),
    (r"\bL40S?\b|\bL4\b|\bL20\b|\bL2\b|\bA10G?\b|\bA16\b|\bA2\b|\b(?:30|40)[5-9]0\b|\bADA\b",
     Generation("without NVLink, PCIe 4", 4)),
    (r"\b50[6-9]0\b|\bRTX PRO\b", Generation("without NVLink, PCIe 5", 5)),
    (r"\bMI300A\b", Generation("MI300A, Infinity Fabric 4", 5, fabric=256.0)),
    (r"\bMI3[0-9]{2}X\b", Generation("MI300X and kin, Infinity Fabric 4", 5, fabric=128.0)),
    (r"\bMI2[0-9]{2}X?\b", Generation("MI200, Infinity Fabric 3", 4, fabric=100.0)),
    (r"\bMI100\b", Generation("MI100, Infinity Fabric 2", 4, fabric=92.0)),
    (r"910B", Generation("Ascend 910B, HCCS", 4, fabric=56.0)),
)  # fmt: skip
KNOWN = tuple((re.compile(words), generation) for words, generation in GENERATIONS)
LONGEST_MODEL = 200


def generation_of(model: str) -> Generation | None:
    """model: a product's name as labels and tools write it ("A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")."""
    name = model[:LONGEST_MODEL].upper().replace("_", " ").replace("-", " ")
    return next((generation for words, generation in KNOWN if words.search(name)), None)


def bandwidth_of(code: str, model: str) -> Bandwidth | None:
    """The rate of a link between two GPUs of that model; None where the code or the model has none known."""
    generation = generation_of(model)
    if generation is None:
        return None
    word = code.strip().upper()
    bonded = LANES.fullmatch(word)
    if bonded is not None and generation.per_lane:
        return _both_ways(int(bonded.group(1)) * generation.per_lane)
    if word in FABRIC_CODES and generation.fabric:
        return _both_ways(generation.fabric)
    if word in PCIE_CODES:
        one_way = PCIE_ONE_WAY[generation.pcie]
        limit = "at most " if word in ("SYS", "SOC", "PCIE") else ""
        return Bandwidth(one_way, 2 * one_way, f"{limit}{one_way:g} GB/s one way")
    return None


def whole_nvlink(model: str) -> Bandwidth | None:
    """All NVLinks of one GPU together."""
    generation = generation_of(model)
    if generation is None or not generation.lanes:
        return None
    return _both_ways(generation.lanes * generation.per_lane)


def _both_ways(rate: float) -> Bandwidth:
    return Bandwidth(rate / 2, rate, f"{rate:g} GB/s both ways")
