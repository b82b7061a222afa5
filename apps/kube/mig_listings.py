"""Reads what `nvidia-smi` prints about MIG: `mig -lgip`, `-lgipp`, `-lgi`, `-lcip`, `-lci`, `-L`, its table.

Several in one text are read together, prompts and other lines passed over; a listing that comes again
replaces the earlier one. Frames, indents, colours and comment marks around the rows do not matter.
Not in here: whether it agrees with the placement tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST_LINE = 400
MOST_LINES = 100_000

COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
FRAMES = str.maketrans("│┃║", "|||")
AROUND = " \t|#>*"
"""What may stand around a row: blanks, frames, marks of comments and quotes."""

PROFILE = re.compile(
    r"(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\s+(\d{1,3})/(\d{1,3})\s+(\d{1,6}\.\d{1,3})"
    r"(?:\s+(?:No|Yes)\s+(\d{1,4}))?"
)
PLACES = re.compile(
    r"GPU\s+(\d{1,4})\s+Profile ID\s+(\d{1,4})\s+Placements?\s{0,4}:\s{0,4}\{([\d,\s]{1,80})\}:(\d{1,3})"
)
INSTANCE = re.compile(r"(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,3}):(\d{1,3})$")
COMPUTE = re.compile(
    r"(\d{1,4})\s+(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\*?\s+(\d{1,4})\s+(\d{1,3}):(\d{1,3})$"
)
COMPUTE_PROFILE = re.compile(
    r"(\d{1,4})\s+(\d{1,4})\s+MIG\s+(\S{1,40})\s+(\d{1,4})\*?\s+(\d{1,3})/(\d{1,3})\s+(\d{1,4})(?:\s|$)"
)
ROW = re.compile(r"\d{1,4}\s+(?:\d{1,4}\s+)?MIG\s+\d")
PLACES_ROW = re.compile(r"GPU\s+\d{1,4}\s+Profile ID\s")
DEVICE = re.compile(r"GPU\s+(\d{1,4}):\s(.{1,80}?)\s\(UUID:\s(GPU-[^\s)]{1,60})\)")
MIG_DEVICE = re.compile(r"MIG\s+(\S{1,40})\s+Device\s+(\d{1,4}):\s+\(UUID:\s(MIG-[^\s)]{1,80})\)")
TABLE_DEVICE = re.compile(
    r"(\d{1,4})\s{1,4}(\S.{1,60}?)\s+(?:On|Off|N/A)\s+\|\s+[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:"
)
TABLE_MEMORY = re.compile(r"\|\s+(?:\d{1,9}MiB|N/A)\s*/\s*(\d{1,9})MiB\s+\|")
TABLE_MODE = re.compile(r"(?:\|\s+){0,3}(Enabled|Disabled)\*?$")
TABLE_ROW = re.compile(
    r"(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+\|\s+(\d{1,9})MiB\s*/\s*(\d{1,9})MiB\s+\|\s+(\d{1,4})\s"
)
TABLE_USER = re.compile(
    r"(\d{1,4})\s+(\d{1,4})\s+(\d{1,4})\s+(\d{1,10})\s+(?:C|G|M|C\+G|M\+C)\s+(\S.{0,100}?)\s+(?:\d{1,9}MiB|N/A)$"
)
NOTHING = re.compile(r"No (GPU|compute) instances found", re.IGNORECASE)
NO_MIG = re.compile(
    r"(No MIG-(?:supported|enabled) devices found|No MIG devices found|Insufficient [Pp]ermissions"
    r"|(?:Unable|Failed) to [^.]{1,120})"
)


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
    """profiles: of `-lgip`. places: of `-lgipp`, (gpu, profile id) -> (starts, size). devices: of `-L` or the
    table, by index; memory_mib, modes: as the table tells them ("Enabled").

    compute_profiles: of `-lcip`, (gpu, instance, name) -> (free, total). mig_devices: (gpu, profile) of `-L`.
    rows: MIG rows of the table. users: (gpu, instance, program) of its processes. instances None: none were
    asked for. is_cut: a row ends before its end. said: what the tool refused, in its words.
    """

    profiles: dict[tuple[int, str], ListedProfile] = field(default_factory=dict)
    places: dict[tuple[int, int], tuple[tuple[int, ...], int]] = field(default_factory=dict)
    instances: list[ListedInstance] | None = None
    compute_instances: list[ListedInstance] | None = None
    compute_profiles: dict[tuple[int, int, str], tuple[int, int]] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    memory_mib: dict[int, int] = field(default_factory=dict)
    modes: dict[int, str] = field(default_factory=dict)
    mig_devices: list[tuple[int, str]] = field(default_factory=list)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    users: list[tuple[int, int, str]] = field(default_factory=list)
    is_cut: bool = False
    said: list[str] = field(default_factory=list)

    def is_empty(self) -> bool:
        told = (self.profiles, self.places, self.devices, self.mig_devices, self.rows, self.compute_profiles)
        return not any(told) and self.instances is None and self.compute_instances is None

    def in_use(self, gpu: int) -> frozenset[int]:
        """GPU instances that some program runs on."""
        return frozenset(instance for at, instance, _ in self.users if at == gpu)


def read_listing(text: str) -> Listing:
    """Whatever of it can be read; an empty listing where nothing can."""
    found = Listing()
    for line in _lines(text):
        _read_heading(found, line)
        is_read = (
            _read_device(found, line)
            or _read_table(found, line)
            or _read_profile(found, line)
            or _read_instance(found, line)
        )
        if not is_read and (ROW.match(line) or PLACES_ROW.match(line)):
            found.is_cut = True
    return found


def _lines(text: str) -> Iterator[str]:
    """Each line without what stands around it."""
    for number, line in enumerate(text.splitlines()):
        if number >= MOST_LINES:
            return
        yield COLOURS.sub("", line[:LONGEST_LINE]).translate(FRAMES).lstrip(AROUND).rstrip(" \t|")


def _read_heading(found: Listing, line: str) -> None:
    nothing = NOTHING.search(line)
    kind = nothing.group(1).lower() if nothing else ""
    if kind == "gpu" or line.startswith("GPU instances:"):
        found.instances = []
    elif kind == "compute" or line.startswith("Compute instances:"):
        found.compute_instances = []
    elif (refused := NO_MIG.search(line)) and refused.group(1) not in found.said[:20]:
        found.said.append(refused.group(1).strip())


def _read_device(found: Listing, line: str) -> bool:
    if match := DEVICE.match(line):
        index = int(match.group(1))
        if index in found.devices:  # -L once more: the later one counts
            found.mig_devices = [one for one in found.mig_devices if one[0] != index]
        found.devices.pop(index, None)
        found.devices[index] = match.group(2)
    elif match := MIG_DEVICE.match(line):
        found.mig_devices.append((next(reversed(found.devices), 0), match.group(1)))
    return match is not None


def _read_table(found: Listing, line: str) -> bool:
    """The table that `nvidia-smi` prints without arguments: three lines per GPU, two per MIG device."""
    last = next(reversed(found.devices), 0)
    if match := TABLE_DEVICE.match(line):
        index = int(match.group(1))
        found.devices.pop(index, None)
        found.devices[index] = match.group(2)
        found.rows = [row for row in found.rows if row[0] != index]
        found.users = [user for user in found.users if user[0] != index]
    elif match := TABLE_ROW.match(line):
        found.rows.append(tuple(int(one) for one in match.groups()))
    elif match := TABLE_USER.match(line):
        found.users.append((int(match.group(1)), int(match.group(2)), match.group(5)))
    elif found.devices and last not in found.memory_mib and (match := TABLE_MEMORY.search(line)):
        found.memory_mib[last] = int(match.group(1))
    elif found.devices and (match := TABLE_MODE.fullmatch(line)):
        found.modes[last] = match.group(1)
    return match is not None


def _read_profile(found: Listing, line: str) -> bool:
    if match := PLACES.search(line):
        starts = tuple(int(one) for one in match.group(3).replace(",", " ").split())
        if starts:
            found.places[int(match.group(1)), int(match.group(2))] = (starts, int(match.group(4)))
        return True
    if match := COMPUTE_PROFILE.match(line):
        gpu, instance, name, _, free, total, _ = match.groups()
        found.compute_profiles[int(gpu), int(instance), name] = (int(free), int(total))
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
    found.is_cut = found.is_cut or multiprocessors is None
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
