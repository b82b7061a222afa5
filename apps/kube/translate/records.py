"""One device's record in a scheduler's register: the colon forms by their number of fields, and JSON.

5  id, units, memory, type, health                               Volcano, old
6  id, units, memory, type, health, mode                         Volcano
6  id, units, memory, cores, type, health                        HAMi's forerunner
7  id, units, memory, cores, type, NUMA, health                  HAMi
9  id, units, memory, cores, type, NUMA, health, index, mode     HAMi
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.kube.translate.values import clean, whole_or_none

TRUE, FALSE = ("1", "t", "T", "true", "True", "TRUE"), ("0", "f", "F", "false", "False", "FALSE")
FORMS = {
    5: ("id", "units", "memory", "type", "health"),
    6: ("id", "units", "memory", "type", "health", "mode"),
    7: ("id", "units", "memory", "cores", "type", "numa", "health"),
    9: ("id", "units", "memory", "cores", "type", "numa", "health", "index", "mode"),
}
OLD_SIX = ("id", "units", "memory", "cores", "type", "health")
MODES = ("hami-core", "mig", "mps")
MOST_UNITS = 10_000
LARGEST_INDEX = 4096
LARGEST_MEMORY = 2**31


@dataclass(frozen=True, slots=True)
class Record:
    """units: parts that pods ask for. memory: as the plugin counts it, mostly MiB. cores: per cent of a
    card, or compute units, as each vendor counts. index: None where it is not told. is_whole: False for
    a record that is cut or lacks something; of such a one only the uuid is believed, if that stands whole.
    """

    uuid: str = ""
    units: int | None = None
    memory: int | None = None
    cores: int | None = None
    model: str = ""
    numa: int | None = None
    healthy: bool = False
    index: int | None = None
    mode: str = ""
    bus_id: str = ""
    form: str = ""
    is_whole: bool = True

    @property
    def ends_surely(self) -> bool:
        """Whether its last field cannot be the beginning of a longer one."""
        return self.form in ("5", "6 old", "7") or self.mode in MODES


def read_colon_record(row: str, *, is_volcano: bool = False) -> Record:
    fields = [field.strip() for field in row.split(",")]
    uuid = clean(fields[0], 100) if len(fields) > 1 else ""
    names = FORMS.get(len(fields))
    form = str(len(fields))
    if len(fields) == 6 and not is_volcano and fields[5] in TRUE + FALSE:
        names, form = OLD_SIX, "6 old"
    if names is None:
        return Record(uuid=uuid, form=form, is_whole=False)
    told = dict(zip(names, fields, strict=True))
    numbers = {name: _number(told.get(name)) for name in ("units", "memory", "cores", "index")}
    is_whole = (
        bool(uuid and told["type"])
        and told["health"] in TRUE + FALSE
        and all(numbers[name] is not None for name in numbers if name in told)
        and _number(told.get("numa", "0"), lowest=-1) is not None
        and _is_believable(numbers["units"], numbers["memory"], numbers["index"])
    )
    if not is_whole:
        return Record(uuid=uuid, form=form, is_whole=False)
    numa = _number(told.get("numa"), lowest=-1)
    return Record(
        uuid=uuid,
        units=numbers["units"],
        memory=numbers["memory"],
        cores=numbers["cores"],
        model=clean(told["type"], 100),
        numa=numa if numa is not None and numa >= 0 else None,
        healthy=told["health"] in TRUE,
        index=numbers["index"],
        mode=clean(told.get("mode", ""), 40),
        form=form,
    )


def read_json_record(found: object, *, needs_units: bool = True) -> Record:
    """HAMi leaves out what is zero, so a missing health is not healthy. MetaX has names of its own."""
    if not isinstance(found, dict):
        return Record(form="json", is_whole=False)
    told: Mapping[str, Any] = found
    uuid = clean(told.get("id", told.get("uuid")), 100)
    numbers = {
        "units": told.get("count", told.get("totalDevCount")),
        "memory": told.get("devmem", told.get("totalVRam")),
        "cores": told.get("devcore", told.get("totalCompute")),
        "index": told.get("index"),
    }
    read = {name: None if value is None else _number(value) for name, value in numbers.items()}
    numa = _number(told.get("numa", -1), lowest=-1)
    health = told.get("health", told.get("healthy", False))
    is_whole = (
        bool(uuid)
        and (read["units"] is not None or not needs_units)
        and isinstance(health, bool)
        and numa is not None
        and all(read[name] is not None for name, value in numbers.items() if value is not None)
        and _is_believable(read["units"], read["memory"], read["index"])
    )
    if not is_whole:
        return Record(uuid=uuid, form="json", is_whole=False)
    return Record(
        uuid=uuid,
        units=read["units"],
        memory=read["memory"],
        cores=read["cores"],
        index=read["index"],
        model=clean(told.get("type", told.get("model")), 100),
        numa=numa if numa is not None and numa >= 0 else None,
        healthy=health is True,
        mode=clean(told.get("mode"), 40),
        bus_id=clean(told.get("bdf"), 40),
        form="json",
    )


def _is_believable(units: int | None, memory: int | None, index: int | None) -> bool:
    return (
        (units is None or units <= MOST_UNITS)
        and (memory is None or memory <= LARGEST_MEMORY)
        and (index is None or index <= LARGEST_INDEX)
    )


def _number(value: object, lowest: int = 0) -> int | None:
    found = whole_or_none(value)
    return found if found is not None and found >= lowest else None
