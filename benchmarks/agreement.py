"""How many of a folder of recorded inputs the product's own commands read as its index says.

    python -m benchmarks.agreement --samples FOLDER [--kind mig] [--all]

The folder has an `index.tsv` (file, kind, …, reading): `reading` is JSON, what a right reading says.
A kind's files go through the command of that kind, in this very process; the keys in COMPARED are
compared. Of the other keys, `--all` prints both sides, for a person. Reports of faults (kind bugs) have
no command: they are answered by the product's functions, see `agreement_bugs`.

Exit 1 if a compared key disagrees and nothing in DISPUTED says why.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMANDS = {
    "topo": "read_topology",
    "node": "read_dump",
    "pod": "read_dump",
    "metrics": "read_metrics",
    "mig": "read_mig",
}
COMPARED = {
    "topo": "gpus links numa nics complete vendor cpu_affinity",
    "node": "vendor physical_gpus product memory_mib memory_mib_per_gpu whole_gpus_allocatable "
    "schedulable_units replicas sharing mig_strategy mig ready",
    "pod": "effective phase fraction",
    "metrics": "physical_gpus fb_mib gpu_instances has_gpu_util pods series",
    "mig": "configs n_configs profiles placements",
}
ALIASES = {
    "memory_mib_per_gpu": ("memory_mib_per_gpu", "memory_mib"),
    "memory_mib": ("memory_mib", "memory_mib_per_gpu"),
}
HOLDERS = ("nodes", "pods", "devices", "configs")
DISPUTED: Mapping[tuple[str, str], str] = {}
"""By (words in the file's name, key): why we think the handed reading wrong."""
IN_WORDS = {"action", "reason"}
"""Of reports of faults: said in words, which a person compares."""
MISSING = "(no such key)"
LONGEST_SHOWN = 160


@dataclass(frozen=True)
class Difference:
    file: str
    key: str
    expected: Any
    got: Any
    reason: str = ""
    refused: str = ""


@dataclass
class Tally:
    files: int = 0
    agreeing: int = 0
    keys: int = 0
    agreeing_keys: int = 0
    seconds: float = 0.0
    differences: list[Difference] = field(default_factory=list)
    others: list[Difference] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=Path, required=True, help="folder with index.tsv")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--all", action="store_true", help="print the keys that only people compare as well")
    options = parser.parse_args()
    prepare_django()
    from benchmarks.agreement_bugs import answer_bug

    tallies: dict[str, Tally] = {}
    for row in read_index(options.samples / "index.tsv"):
        if options.kind in (None, row["kind"]):
            tally = tallies.setdefault(row["kind"], Tally())
            begun = time.perf_counter()
            path = options.samples / row["file"]
            try:
                answer = (
                    answer_bug(path) if row["kind"] == "bugs" else ask_command(COMMANDS[row["kind"]], path)
                )
            except Exception as error:  # a fault of ours: told as one, and the other files are read
                answer = {"refused": f"FAILED: {type(error).__name__}: {error}"}
            tally.seconds += time.perf_counter() - begun
            compare(tally, row, answer)
    for kind, tally in tallies.items():
        show(kind, tally, with_others=options.all)
    return int(any(not one.reason for tally in tallies.values() for one in tally.differences))


def prepare_django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.test")
    os.environ.setdefault("SECRET_KEY", "agreement")
    import django

    django.setup()


def read_index(path: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(2**24)
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def ask_command(command: str, path: Path) -> dict[str, Any]:
    """What the command prints with --json; {"refused": its one line} where it refuses the file."""
    from django.core.management import CommandError, call_command, get_commands

    if command not in get_commands():
        return {"refused": f"there is no command {command}"}
    printed = io.StringIO()
    try:
        with contextlib.suppress(SystemExit):  # read, and refused as not applicable: the answer stands
            call_command(command, str(path), json=True, stdout=printed)
    except CommandError as error:
        if not printed.getvalue():
            return {"refused": str(error)}
    try:
        return json.loads(printed.getvalue())
    except ValueError:
        return {"refused": "what it printed is no JSON"}


def compare(tally: Tally, row: Mapping[str, str], answer: Mapping[str, Any]) -> None:
    reading = json.loads(row["reading"])
    compared = COMPARED[row["kind"]].split() if row["kind"] in COMPARED else set(reading) - IN_WORDS
    tally.files += 1
    agrees = True
    for key, expected in reading.items():
        got = find(answer, key, expected)
        if row["kind"] == "bugs":
            got = asked_part(expected, got)
        if key not in compared:
            tally.others.append(Difference(row["file"], key, expected, got))
            continue
        tally.keys += 1
        if is_same(expected, got):
            tally.agreeing_keys += 1
            continue
        agrees = False
        refused = str(answer.get("refused", ""))
        why = dispute(row["file"], key)
        tally.differences.append(Difference(row["file"], key, expected, got, why, refused))
    tally.agreeing += agrees


def find(answer: Mapping[str, Any], key: str, expected: Any) -> Any:
    """The value at the top, else in a member of one of the lists (the one that agrees, if any)."""
    for name in ALIASES.get(key, (key,)):
        if name in answer:
            return answer[name]
    found = [
        member[name]
        for holder in HOLDERS
        if isinstance(answer.get(holder), list)
        for member in answer[holder]
        if isinstance(member, dict)
        for name in ALIASES.get(key, (key,))
        if name in member
    ]
    if not found:
        return MISSING
    return next((one for one in found if is_same(expected, one)), found[0])


def is_same(expected: Any, got: Any) -> bool:
    if isinstance(expected, list) and isinstance(got, dict):
        return is_same(expected, list(got)) or is_same(expected, row_of(got)[: len(expected)])
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(is_same(expected[key], got[key]) for key in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(is_same, expected, got))
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return abs(expected - got) < 1e-6
    return expected == got


def asked_part(expected: Any, got: Any) -> Any:
    """Of what is answered, the keys that are asked for."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return {key: asked_part(expected[key], got[key]) for key in expected if key in got}
    return got


def row_of(profile: Mapping[str, Any]) -> list[Any]:
    """A profile as some readings write it: the first of these numbers in a row."""
    return [profile.get(name) for name in ("id", "free", "total", "mem_gib", "sm")]


def dispute(file: str, key: str) -> str:
    return next((why for (words, name), why in DISPUTED.items() if words in file and name == key), "")


def show(kind: str, tally: Tally, *, with_others: bool) -> None:
    print(
        f"{kind}: {tally.agreeing} of {tally.files} files agree, {tally.agreeing_keys} of {tally.keys} keys"
        f" ({tally.seconds:.1f} s)"
    )
    said: set[str] = set()
    for one in tally.differences:
        if one.refused:
            if one.file not in said:
                print(f"  {one.file}  refused: {one.refused}")
            said.add(one.file)
            continue
        print(f"  {one.file}  {one.key}\n    expected {short(one.expected)}\n    got      {short(one.got)}")
        if one.reason:
            print(f"    we think the reading is wrong: {one.reason}")
    for one in tally.others if with_others or kind == "bugs" else ():
        sign = "=" if is_same(one.expected, one.got) else "?"
        print(f"  {sign} {one.file}  {one.key}\n    reading  {short(one.expected)}")
        print(f"    answer   {short(one.got)}")


def short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}… ({len(text)} characters)"


if __name__ == "__main__":
    sys.exit(main())
