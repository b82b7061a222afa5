"""Reads the tables of docs/faults.md: every fault that has to be survived and the test that shows it, every
safety rule and what stands for it. The page is the one place where tests of other folders get a fault's name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
GROUPS = (
    "worker", "broker", "database", "API server", "clock", "pods", "replacement", "node", "MIG", "workflow",
)  # fmt: skip
_FAULT = re.compile(rf"^\| ((?:{'|'.join(GROUPS)}): [^|]+) \| (.+) \|$", re.M)
_RULE = re.compile(r"^\| (\d+) \| ([^|]+) \| (.+) \|$", re.M)
_TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


@cache
def faults() -> dict[str, list[str]]:
    """Name of a fault: the tests that show it (file::function)."""
    return {name.strip(): _TEST.findall(told) for name, told in _FAULT.findall(PAGE.read_text())}


@cache
def rules() -> dict[int, tuple[bool, list[str]]]:
    """Number of a rule: whether it is asserted after every fault, and the tests that show it besides."""
    found = _RULE.findall(PAGE.read_text())
    return {int(number): (told.startswith("A"), _TEST.findall(told)) for number, _, told in found}


@cache
def shown_by() -> dict[str, list[str]]:
    """A test and the faults that it stands for."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, tests in faults().items():
        for test in tests:
            found[test].append(name)
    return found
