"""The words of link tables: names of devices, titles of columns, codes of links, and how to tell them apart.

nvidia-smi's table is the model that the tools of other vendors follow; what differs is a word here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

NUMBERED = r"(?:GPU|NPU|HCU|DCU|MLU|XPU|PPU|GCU|Card|card|Phy-?ID|Device)"
BUS_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]"
GPU_WORD = rf"{NUMBERED} ?\[?\d{{1,5}}\]?(?:/\d{{1,3}})?|{BUS_ADDRESS}"
NIC_WORD = r"NIC ?\d{1,5}|mlx\d{1,3}_(?:bond_?)?\d{1,5}"
STORAGE_WORD = r"(?:NVME|NVMe|nvme)[\w-]{0,20}"
TITLE_WORDS = {
    "cpu": r"CPU[\s_-]*Affinity",
    "gpu-numa": r"GPU[\s_-]*NUMA[\s_-]*ID",
    "numa": r"(?:NUMA|Numa|Node|NODE)[\s_-]*(?:Node[\s_-]*)?Affinity",
}
TITLE = "|".join(f"(?P<{key.replace('-', '_')}>{words})" for key, words in TITLE_WORDS.items())
COLUMN = re.compile(
    rf"(?P<gpu>{GPU_WORD})(?![\w.:])|{TITLE}|(?P<nic>{NIC_WORD})|(?P<storage>{STORAGE_WORD})|(?P<other>[^\s]{{1,64}})"
)
FUSED_COLUMN = re.compile(rf"(?P<gpu>{GPU_WORD})|(?P<nic>{NIC_WORD})|(?P<storage>{STORAGE_WORD})")
GPU_NAME = re.compile(rf"(?:{GPU_WORD}):?")
NIC_NAME = re.compile(rf"(?:{NIC_WORD}):?")
SPACED_NAME = re.compile(r"(?<![\w-])(GPU|NPU|HCU|DCU|MLU|Phy-?ID|NIC) (\d{1,5}(?:/\d{1,3})?)(?![\w.,-])")
ITSELF = frozenset({"X", "x", "SELF", "Self", "self", "S"})
KNOWN_CODES = frozenset(
    [
        "X",
        "SYS",
        "NODE",
        "PHB",
        "PXB",
        "PIX",
        "SOC",
        "PSB",
        "HCCS",
        "HCCS_SW",
        "SIO",
        "XGMI",
        "PCIE",
        "HT",
        "MX",
        "ETH",
        "MLK",
        "MUL",
        "NA",
        "SELF",
        "XGMI_SW",
    ]
)
BONDED = re.compile(r"(?:NV|MT|MTL|XL|IX|MX|MLU)\d{1,3}")
CAPABILITIES = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U", "N/A", "NA"})
"""What `nvidia-smi topo -p2p` says in a table of the same form: rights, not links."""
AFFINITY_CELL = re.compile(r"-?\d[\d,\-]*|N/A|-|None")
CODE_CELL = re.compile(r"[A-Za-z?][\w?*+#./-]{0,40}")


def spell_name(name: str) -> str:
    """One spelling of a device's name: "GPU 0", "GPU[0]" and "GPU0:" are GPU0."""
    return re.sub(r"[\s\[\]:]+", "", name) if not re.fullmatch(BUS_ADDRESS, name) else name.lower()


def is_gpu_name(word: str) -> bool:
    return GPU_NAME.fullmatch(word) is not None


def number_of(name: str) -> int | None:
    """The index that a name carries; None for a bus address."""
    found = re.search(r"(\d+)$", name) if ":" not in name else None
    return int(found.group(1)) if found else None


def is_itself(code: str) -> bool:
    return code in ITSELF


def is_code_shaped(word: str) -> bool:
    return CODE_CELL.fullmatch(word) is not None


def is_affinity_shaped(word: str) -> bool:
    return AFFINITY_CELL.fullmatch(word) is not None


def unfuse(word: str, vocabulary: frozenset[str]) -> list[str]:
    """The codes that ran together in one cell ("SYSSYS", "NODEPIX"); the word itself if it is no such
    chain."""
    if word in vocabulary or BONDED.fullmatch(word) or not 2 <= len(word) <= 400:
        return [word]
    return list(_chain(word, vocabulary) or (word,))


@lru_cache(maxsize=4096)
def _chain(word: str, vocabulary: frozenset[str]) -> tuple[str, ...] | None:
    """Longest words first, from the end, so that every position is tried once."""
    longest = max(map(len, vocabulary), default=0)
    tails: list[tuple[str, ...] | None] = [None] * len(word) + [()]
    for start in range(len(word) - 1, -1, -1):
        for length in range(min(longest, len(word) - start), 0, -1):
            piece, tail = word[start : start + length], tails[start + length]
            if tail is not None and piece in vocabulary:
                tails[start] = (piece, *tail)
                break
    return tails[0] or None


def vocabulary_of(codes: Iterable[str], legend: Iterable[str]) -> frozenset[str]:
    """Words that may stand in a cell of this table: the known ones, its legend's, and its own lane counts."""
    own = {word for code in codes for word in BONDED.findall(code)}
    return KNOWN_CODES | {word for word in legend if is_code_shaped(word) and len(word) <= 12} | own
