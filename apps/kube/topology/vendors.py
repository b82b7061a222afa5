"""Whose hardware a text speaks of, and what it says where a tool had nothing to tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LOOKED_AT = 64 * 1024
BY_WORDS = (
    ("metax", r"\bmx-smi\b|metax|marslink"),
    ("hygon", r"\bhy-smi\b|\b[HD]CU ?\[?\d"),
    ("ascend", r"\bnpu-smi\b|\bNPU ?\[?\d|\bPhy-?ID ?\d|\bHCCS\b"),
    ("cambricon", r"\bcnmon\b|\bMLU ?\d|mlu-?link"),
    ("iluvatar", r"\bixsmi\b|ixlink"),
    ("mthreads", r"\bmthreads-gmi\b|mtlink"),
    ("intel", r"\bxpu-smi\b|xe link"),
    (
        "amd",
        r"\brocm-smi\b|ROCm System Management|\bamd-smi\b|\bxgmi\b|between two GPUs|LINK TYPE TABLE"
        r"|AMD Topology",
    ),
    ("nvidia", r"\bnvidia|\bNVLinks?\b"),
)
"""What only a tool of that maker or its legend says: a CPU of Hygon, or "ROCm: disabled", stands in texts of
others too."""
VENDORS = tuple((vendor, re.compile(words, re.IGNORECASE)) for vendor, words in BY_WORDS)
NVLINK = re.compile(r"NV\d{1,3}")
BY_CODE = (("XGMI", "amd"), ("HCCS", "ascend"), ("SIO", "ascend"), ("MLK", "cambricon"),
           ("MT", "mthreads"), ("XL", "intel"))  # fmt: skip
REFUSALS = (
    (r"(?:failed because it couldn't|unable to) communicate with the NVIDIA driver", "driver not reachable"),
    (r"Driver/library version mismatch", "driver and library are of different versions"),
    (r"Failed to initialize NVML", "NVML cannot be initialized"),
    (r"No devices were found|No (?:AMD )?GPUs? (?:were )?(?:detected|found)", "no devices found"),
    (r"Unable to determine the device handle|GPU is lost", "a GPU is lost"),
    (r"Driver not initialized|amdgpu not found in modules", "driver not loaded"),
    (r"dcmi m\w+ init\w* failed|DrvMngGetConsoleLogLevel failed", "driver not reachable"),
    (r"(?:nvidia-smi|rocm-smi|amd-smi|npu-smi|hy-smi|mx-smi|cnmon|ixsmi|mthreads-gmi|xpu-smi)['\"]?:? "
     r"{0,3}(?:command )?not found|(?:is )?not recognized as an internal", "the tool is not installed"),
    (r"Insufficient Permissions|Permission denied", "permission denied"),
    (r"Invalid combination of input arguments|unrecognized arguments|Unknown option",
     "the tool refused its arguments"),
    (r"Not Supported|not supported on this", "not supported here"),
)  # fmt: skip
REFUSED = tuple((re.compile(words, re.IGNORECASE), error) for words, error in REFUSALS)
DECLARED = re.compile(
    r"\bAttached GPUs\s{0,60}:\s{0,4}(\d{1,4})\b|\bTotal (?:GPU|Card|NPU) Count\s{0,60}:\s{0,4}(\d{1,4})\b"
)


def tell_vendor(lines: Sequence[str], names: Iterable[str], codes: Iterable[str]) -> str:
    """ "" if nothing tells. A table of GPUs in nvidia-smi's form that names no other maker is NVIDIA's."""
    told = set(codes)
    if any(NVLINK.fullmatch(code) for code in told):
        return "nvidia"
    head = "\n".join(lines)[:LOOKED_AT]
    for vendor, words in VENDORS:
        if words.search(head):
            return vendor
    for start, vendor in BY_CODE:
        if any(code.startswith(start) and code not in ("MX",) for code in told):
            return vendor
    return "nvidia" if any(name.startswith("GPU") for name in names) else ""


def tell_refusal(lines: Sequence[str]) -> str:
    """What a tool said instead of a table; "" if nothing known."""
    head = "\n".join(lines)[:LOOKED_AT]
    return next((error for words, error in REFUSED if words.search(head)), "")


def tell_declared(lines: Sequence[str]) -> int | None:
    """How many GPUs the tool says are there, beside its table."""
    found = DECLARED.search("\n".join(lines)[:LOOKED_AT])
    return int(found.group(1) or found.group(2)) if found else None
