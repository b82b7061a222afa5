"""Reads lists of labels, a line each, as GPU Feature Discovery writes them, and patterns of such lists."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEY = re.compile(r"^[A-Za-z0-9.-]+\.[a-z]{2,}/[A-Za-z0-9_.-]+$")
LINE = re.compile(r"^[A-Za-z0-9._\\-]+\\?/[^=\s]+(?:=.*)?$")
PATTERN = re.compile(r"\\[./]|\.\*|\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class LabelList:
    """labels: with their values. keys: those whose values are patterns. unclear: lines whose key is one."""

    labels: dict[str, str]
    keys: tuple[str, ...]
    unclear: tuple[str, ...]


def read_label_list(text: str) -> LabelList | None:
    """None for anything else."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines or not all(LINE.match(line) for line in lines):
        return None
    if any(PATTERN.search(line) for line in lines):
        told = [line.partition("=") for line in lines]
        keys = [re.sub(r"\\(.)", r"\1", key) for key, equals, _ in told if equals]
        unclear = [re.sub(r"\\(.)", r"\1", key) for key, equals, _ in told if not equals]
        return LabelList({}, tuple(keys), tuple(unclear))
    labels = dict(line.split("=", 1) for line in lines if "=" in line)
    return LabelList(labels, (), ()) if labels and all(map(KEY.match, labels)) else None
