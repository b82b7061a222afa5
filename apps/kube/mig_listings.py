"""Reads what `nvidia-smi` prints about MIG: `mig -lgip`, `-lgipp`, `-lgi`, `-lci`, `-L`, and its table.

Several in one text are read together, prompts and other lines passed over; a listing that comes again
replaces the earlier one. Not in here: whether it agrees with the placement tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST_LINE = 400
MOST_LINES = 100_000

PROFILE = re.compile(
    r"\|?\s*(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\s+(\d{1,3})/(\d{1,3})\s+(\d{1,6}\.\d{1,3})"
    r"(?:\s+(?:No|Yes)\s+(\d{1,4}))?"
)
PLACES = re.compile(
    r"GPU\s+(\d{1,4})\s+Profile ID\s+(\d{1,4})\s+Placements?\s{0,4}:\s{0,4}\{([\d,\s]{1,80})\}:(\d{1,3})"
)
INSTANCE = re.compile(
    r"\|?\s*(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,3}):(\d{1,3})\s*\|?\s*$"
)
COMPUTE = re.compile(
    r"\|?\s*(\d{1,4})\s+(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\*?\s+(\d{1,4})\s+(\d{1,3}):(\d{1,3})\s*\|?\s*$"
)
DEVICE = re.compile(r"GPU\s+(\d{1,4}):\s(.{1,80}?)\s\(UUID:\s(GPU-\S{1,60})\)")
MIG_DEVICE = re.compile(r"\s+MIG\s+(\S{1,40})\s+Device\s+(\d{1,4}):\s+\(UUID:\s(MIG-\S{1,80})\)")
TABLE_ROW = re.compile(
    r"\|\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+\|"
    r"\s+(\d{1,9})MiB /\s+(\d{1,9})MiB\s+\|\s+(\d{1,4})\s"
)
NOTHING = re.compile(r"No (GPU|compute) instances found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedProfile:
    gpu: int
    name: str
    number: int
    free: int
    total: int
    memory_gib: float
    multiprocessors: int | None


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """compute: None for a GPU instance, its own id for a compute instance inside `instance`."""

    gpu: int
    profile: str
    number: int
    instance: int
    start: int
    size: int
    compute: int | None = None


@dataclass(slots=True)
class Listing:
    """profiles: of `-lgip`. places: of `-lgipp`, (gpu, profile id) -> (starts, size). devices: of `-L`.

    mig_devices: (gpu, profile) of `-L`. rows: MIG rows of the table. instances None: none were asked
    for. is_cut: a row ends before its end.
    """

    profiles: dict[tuple[int, str], ListedProfile] = field(default_factory=dict)
    places: dict[tuple[int, int], tuple[tuple[int, ...], int]] = field(default_factory=dict)
    instances: list[ListedInstance] | None = None
    compute_instances: list[ListedInstance] | None = None
    devices: dict[int, str] = field(default_factory=dict)
    mig_devices: list[tuple[int, str]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    is_cut: bool = False

    def is_empty(self) -> bool:
        told = (self.profiles, self.places, self.devices, self.mig_devices, self.rows)
        return not any(told) and self.instances is None and self.compute_instances is None


def read_listing(text: str) -> Listing:
    """Whatever of it can be read; an empty listing where nothing can."""
    found = Listing()
    for line in _lines(text):
        _read_heading(found, line)
        _read_device(found, line) or _read_profile(found, line) or _read_instance(found, line)
    return found


def _lines(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines()):
        if number >= MOST_LINES:
            return
        yield line[:LONGEST_LINE]


def _read_heading(found: Listing, line: str) -> None:
    nothing = NOTHING.search(line)
    kind = nothing.group(1).lower() if nothing else ""
    if kind == "gpu" or "| GPU instances:" in line:
        found.instances = []
    elif kind == "compute" or "| Compute instances:" in line:
        found.compute_instances = []


def _read_device(found: Listing, line: str) -> bool:
    if match := DEVICE.match(line):
        index = int(match.group(1))
        if index in found.devices:  # -L once more: the later one counts
            found.mig_devices = [one for one in found.mig_devices if one[0] != index]
        found.devices[index] = match.group(2)
    elif match := MIG_DEVICE.match(line):
        found.mig_devices.append((next(reversed(found.devices), 0), match.group(1)))
    elif match := TABLE_ROW.match(line):
        found.rows.append(tuple(int(one) for one in match.groups()))
    return match is not None


def _read_profile(found: Listing, line: str) -> bool:
    if match := PLACES.search(line):
        starts = tuple(int(one) for one in match.group(3).replace(",", " ").split())
        found.places[int(match.group(1)), int(match.group(2))] = (starts, int(match.group(4)))
        return True
    match = PROFILE.match(line)
    if match is None:
        return False
    gpu, name, number, free, total, memory, multiprocessors = match.groups()
    found.profiles[int(gpu), name] = ListedProfile(
        int(gpu),
        name,
        int(number),
        int(free),
        int(total),
        float(memory),
        int(multiprocessors) if multiprocessors else None,
    )
    found.is_cut = found.is_cut or not line.rstrip().endswith("|")
    return True


def _read_instance(found: Listing, line: str) -> bool:
    if match := COMPUTE.match(line):
        gpu, instance, profile, number, own, start, size = match.groups()
        numbers = [int(one) for one in (number, instance, start, size, own)]
        compute = ListedInstance(int(gpu), profile, *numbers)
        found.compute_instances = [*(found.compute_instances or []), compute]
    elif match := INSTANCE.match(line):
        gpu, profile, number, instance, start, size = match.groups()
        numbers = [int(one) for one in (number, instance, start, size)]
        found.instances = [*(found.instances or []), ListedInstance(int(gpu), profile, *numbers)]
    return match is not None
