"""A two-letter code and a hue for every workload: the same workload looks the same on every page.

The hue comes from the workload's key alone, so it stays whoever else comes or goes; workloads may
share one of the twelve, and the code tells them apart. The code comes from the name and stays unique as
long as codes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from string import ascii_uppercase, digits
from zlib import crc32

from apps.planner.inventory import Pod
from apps.planner.snapshot import Snapshot

HUES = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """key: "namespace/name" of the workload. hue: 1 to 12. code: two letters."""

    key: str
    name: str
    code: str
    hue: int


def workload_key(snapshot: Snapshot, pod: Pod) -> str:
    return f"{pod.namespace}/{snapshot.workload_name(pod)}"


def mark_workloads(keys: Iterable[str]) -> Mapping[str, Mark]:
    """Marks for workloads named "namespace/name". The order of `keys` does not matter."""
    marks: dict[str, Mark] = {}
    used_codes: set[str] = set()
    are_codes_left = True
    pairs = product(ascii_uppercase, ascii_uppercase + digits)
    for key in sorted(set(keys), key=lambda key: (crc32(key.encode()), key)):
        name = key.partition("/")[2]
        # A pair that was taken once stays so: one search through them for all names, of which many may come.
        code = next((code for code in _codes(name) if code not in used_codes), "") if are_codes_left else ""
        if are_codes_left and not code:
            code = next((one + two for one, two in pairs if one + two not in used_codes), "")
            are_codes_left = bool(code)
        code = code or _letters(name)[:2]
        used_codes.add(code)
        marks[key] = Mark(key=key, name=name, code=code, hue=hue_of(key))
    return marks


def hue_of(key: str) -> int:
    return crc32(key.encode()) % HUES + 1


def _letters(name: str) -> str:
    return (re.sub(r"[^A-Za-z0-9]", "", name).upper() + "XX") if name else "XX"


def _codes(name: str) -> Iterator[str]:
    """Codes for a name, best first: initials, then the first letter with each later one, then with any."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name.upper()) if word]
    letters = _letters(name)
    if len(words) > 1:
        yield words[0][0] + words[1][0]
    for letter in sorted(letters[1:], key=lambda letter: letter in "AEIOU"):
        yield letters[0] + letter
    for letter in ascii_uppercase + digits:
        yield letters[0] + letter
