"""Reads what `nvidia-smi --query-gpu=… --format=csv` prints: a header, a row per GPU, units inside the cells.

`[N/A]`, `[Unknown Error]`, `Not Active` and the like are not measured. Of several rows of one GPU the last
one counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from apps.prometheus.errors import BadMetrics
from apps.prometheus.identity import Identity, identity_of
from apps.prometheus.measures import measured
from apps.prometheus.metric_names import Meaning
from apps.prometheus.readings import Device
from apps.prometheus.series import Series, clean, warn
from apps.prometheus.units import Told, build_unit

MOST_ROWS = 50_000
LONGEST_CELL = 64 * 1024
COLUMNS = {
    "memory.used": "used",
    "memory.free": "free",
    "memory.reserved": "reserved",
    "memory.total": "total",
    "utilization.gpu": "util",
    "power.draw": "power",
    "power.draw.instant": "power_now",
    "temperature.gpu": "temperature",
}
_DEFAULT_UNIT = {"power": "watts", "power_now": "watts", "temperature": "celsius", "util": "percent"}
_UNITS = {"mib": "mib", "mb": "mib", "gib": "gib", "gb": "gib", "kib": "kib", "b": "bytes", "bytes": "bytes"}
_UNITS |= {"%": "percent", "w": "watts", "mw": "milliwatts", "c": "celsius"}
_KNOWN = {
    *COLUMNS,
    "name",
    "gpu_name",
    "uuid",
    "gpu_uuid",
    "index",
    "pci.bus_id",
    "timestamp",
    "driver_version",
}
_TELLING = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id")
_CELL = re.compile(r"\s*([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]*)\s*")


@dataclass(slots=True)
class SmiTable:
    """columns, rows: their numbers. first: the first data row, by the header's names without units."""

    columns: int
    rows: int
    first: dict[str, str]
    devices: tuple[Device, ...]
    warnings: list[str] = field(default_factory=list)


def looks_like_smi(text: str) -> bool:
    """Whether one of the first lines is a header of `nvidia-smi`'s columns."""
    return any(_is_header(line) for line in text[:LONGEST_CELL].splitlines()[:50])


def looks_headless(text: str) -> bool:
    """Rows that --format=csv,noheader prints: which column is which cannot be told."""
    first = next((line for line in text[:LONGEST_CELL].splitlines() if line.strip()), "")
    return (
        first.count(",") >= 1
        and bool(re.search(r"\d (MiB|%|W)\b|GPU-[0-9a-f]{8}-", first))
        and "{" not in first
    )


def _is_header(line: str) -> bool:
    names = [_plain(cell) for cell in line.split(",")]
    return (
        any(name in _KNOWN for name in names) and sum(_is_column(name) for name in names) >= len(names) * 0.9
    )


def _plain(cell: str) -> str:
    return cell.partition("[")[0].strip().lower()


def _is_column(name: str) -> bool:
    return re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", name, re.I) is not None and not name.isdecimal()


def read_smi_csv(name: str, text: str) -> SmiTable:
    """name: of the source, for errors. Raises BadMetrics."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise BadMetrics(f"{name} has no header of nvidia-smi's columns: print it without noheader.")
    header = [cell.strip() for cell in lines[start].split(",")]
    names, units = [_plain(cell) for cell in header], [_unit_in(cell) for cell in header]
    table = SmiTable(columns=len(names), rows=0, first={}, devices=())
    last: dict[str, dict[str, str]] = {}
    try:
        for cells in csv.reader(lines[start + 1 :][-MOST_ROWS:], skipinitialspace=True):
            if not cells or not any(map(str.strip, cells)) or _plain(cells[0]) == names[0]:
                continue
            if len(cells) != len(names):
                warn(table.warnings, f"a row has {len(cells)} cells under {len(names)} columns: passed over")
                continue
            row = {key: clean(cell.strip()) for key, cell in zip(names, cells, strict=True)}
            table.rows += 1
            table.first = table.first or row
            last[" ".join(row.get(name, "") for name in _TELLING)] = row
    except csv.Error as error:
        raise BadMetrics(f"{name} cannot be read as CSV: {error}.") from error
    table.devices = tuple(_device(row, dict(zip(names, units, strict=True))) for row in last.values())
    return table


def _unit_in(cell: str) -> str:
    found = re.search(r"\[([A-Za-z%]+)\]", cell)
    return found.group(1).lower() if found else ""


def _device(row: Mapping[str, str], units: Mapping[str, str]) -> Device:
    told = {COLUMNS[name]: _told(name, cell, units[name]) for name, cell in row.items() if name in COLUMNS}
    identity = _identity(row)
    is_cut = row.get("mig.mode.current", "").lower() == "enabled"
    power = told.get("power")
    if power is None or power.value is None:
        power = told.get("power_now", power)
    temperature = told.get("temperature")
    at = _time(row.get("timestamp", ""))
    pair = {"power": power, "temperature": temperature}
    return Device(
        host=identity.host,
        uuid=identity.uuid,
        index=identity.index,
        vendor="nvidia",
        model=_word(row.get("name", "") or row.get("gpu_name", "")),
        bus_id=identity.bus_id,
        units=(build_unit(identity, told, at=at, is_cut=is_cut),),
        power_watts=power.value if power else None,
        temperature_c=temperature.value if temperature else None,
        missing={name: one.why for name, one in pair.items() if one is not None and one.value is None},
        at=at,
    )


def _identity(row: Mapping[str, str]) -> Identity:
    labels = {
        "UUID": _word(row.get("uuid", "") or row.get("gpu_uuid", "")),
        "gpu": _word(row.get("index", "")),
        "pci_bus_id": _word(row.get("pci.bus_id", "") or row.get("gpu_bus_id", "")),
        "hostname": _word(row.get("hostname", "")),
    }
    return identity_of(Series("nvidia_smi", labels, 0.0)) or Identity("", "", "")


def _word(cell: str) -> str:
    """ "" for what nvidia-smi writes where it knows nothing."""
    return "" if cell.startswith("[") or cell in ("N/A", "None", "Unknown Error") else cell


def _told(name: str, cell: str, unit: str) -> Told:
    quantity = COLUMNS[name]
    found = _CELL.fullmatch(cell)
    if found is None:
        return Told(None, f"nvidia-smi tells {cell or 'nothing'}", name, 0, 0.0)
    unit = _UNITS.get(found.group(2).lower() or unit, "") or _DEFAULT_UNIT.get(quantity, "mib")
    number = float(found.group(1))
    if unit in ("gib", "kib"):
        number, unit = number * (1024 if unit == "gib" else 1 / 1024), "mib"
    value, why = measured(number, Meaning(quantity, unit))
    return Told(value, why, name, 0, 0.0)


def _time(cell: str) -> float | None:
    for pattern in ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S"):
        try:
            return datetime.strptime(cell, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None
