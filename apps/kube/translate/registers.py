"""The devices that a sharing scheduler's plugin registered in a node's annotations: HAMi, Volcano, MetaX.

Each device is a record. A record that is cut or lacks fields tells of a device whose state is unknown: it
is kept, said, and never healthy; and no number is read from the place where a text was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.kube.translate.handshakes import Handshake
from apps.kube.translate.records import Record, read_colon_record, read_json_record
from apps.kube.translate.values import Warn, brief, clean
from apps.kube.translate.vendors import Cards

HAMI_KEY = re.compile(r"^(?:hami\.io|4pd\.io)/node-(?:register-(?P<named>.+)|(?P<family>.+)-register)$")
VOLCANO_KEY = "volcano.sh/node-vgpu-register"
METAX_KEY = "metax-tech.com/node-gpu-devices"
FAMILIES = {
    "nvidia": Cards("nvidia"),
    "amd": Cards("amd"),
    "mlu": Cards("cambricon"),
    "dcu": Cards("hygon"),
    "xpu": Cards("kunlun"),
    "va": Cards("vastai"),
    "biren": Cards("biren"),
    "mthreads": Cards("mthreads"),
    "metax": Cards("metax"),
    "volcano-vgpu": Cards("nvidia"),
}
CHIPS = (("ascend", "ascend"), ("mr-v", "iluvatar"), ("bi-v", "iluvatar"))
CUT_NAME = re.compile(r'^\{\s*"(?:id|uuid)"\s*:\s*"([^"\\]+)"')
MOST_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class Register:
    """records: in the order of the annotation. is_cut: its end is missing, more devices may follow.
    handshake: of the same family, None if there is none."""

    key: str
    family: str
    scheduler: str
    cards: Cards
    records: tuple[Record, ...]
    is_cut: bool = False
    handshake: Handshake | None = None

    @property
    def whole(self) -> tuple[Record, ...]:
        return tuple(record for record in self.records if record.is_whole)

    @property
    def units_per_card(self) -> int:
        """What most cards are dealt into; 1 if nobody says."""
        told = [record.units for record in self.whole if record.units]
        return max(set(told), key=lambda units: (told.count(units), units)) if told else 1


def read_registers(
    annotations: Mapping[str, str], handshakes: Mapping[str, Handshake], warn: Warn
) -> list[Register]:
    """Those that name at least one device."""
    found: list[Register] = []
    for key in sorted(annotations):
        family, scheduler = _family_of(key)
        if not family:
            continue
        records, is_cut = read_records(annotations[key], is_volcano=scheduler == "volcano-vgpu")
        damaged = sum(not record.is_whole for record in records)
        if damaged or is_cut:
            where = ", its end is cut off" if is_cut else ""
            warn(f"the annotation {key} has {damaged} records that cannot be read whole{where}: not healthy")
        records = _in_their_places(_believed(records), key, warn)
        if records:
            cards = _cards_of(family)
            found.append(Register(key, family, scheduler, cards, records, is_cut, handshakes.get(family)))
        elif annotations[key].strip() and not damaged:
            warn(f"the annotation {key} names no device that can be read")
    return found


def _family_of(key: str) -> tuple[str, str]:
    """(family of devices, scheduler); "" for another annotation."""
    if key == VOLCANO_KEY:
        return "volcano-vgpu", "volcano-vgpu"
    if key == METAX_KEY:
        return "metax", "hami"
    found = HAMI_KEY.match(key)
    return (found["named"] or found["family"], "hami") if found else ("", "")


def _cards_of(family: str) -> Cards:
    known = FAMILIES.get(family.lower())
    if known is not None:
        return known
    for prefix, vendor in CHIPS:
        if family.lower().startswith(prefix):
            return Cards(vendor, family.lower()[:40])
    return Cards(family.lower()[:40])


def read_records(text: str, *, is_volcano: bool = False) -> tuple[tuple[Record, ...], bool]:
    """(records, whether the text's end is cut off)."""
    text = text.strip()
    if text.startswith("["):
        records, is_cut = _json_records(text)
    else:
        records, is_cut = _colon_records(text, is_volcano=is_volcano)
    return tuple(records[:MOST_RECORDS]), is_cut or len(records) > MOST_RECORDS


def _colon_records(text: str, *, is_volcano: bool) -> tuple[list[Record], bool]:
    """Every encoder ends each record by a colon. Without the last one the text may have been cut anywhere,
    unless the last record has the form of the others to the letter."""
    rows = text.split(":")
    tail = rows.pop().strip()
    records = [read_colon_record(row.strip(), is_volcano=is_volcano) for row in rows if row.strip()]
    if not tail:
        return records, False
    last = read_colon_record(tail, is_volcano=is_volcano)
    is_like_the_others = bool(records) and all(record.form == last.form for record in records)
    if last.is_whole and is_like_the_others and last.ends_surely:
        return [*records, last], False
    if not records and "," not in tail:
        return [], True
    return [*records, _cut(last, tail)], True


def _cut(last: Record, tail: str) -> Record:
    """What stands before the last comma is whole, the rest is not believed."""
    uuid = last.uuid if "," in tail else ""
    return Record(uuid=uuid, model="", form=last.form, is_whole=False)


def _json_records(text: str) -> tuple[list[Record], bool]:
    found, rest = _json_entries(text)
    # Where no record at all tells its units, nobody deals the cards out by number.
    tells_units = any(isinstance(one, dict) and ("count" in one or "totalDevCount" in one) for one in found)
    records = [read_json_record(entry, needs_units=tells_units or bool(rest)) for entry in found]
    if any(record.index is not None for record in records):
        records = [replace(one, index=0) if one.is_whole and one.index is None else one for one in records]
    if any(record.numa is not None for record in records):
        records = [replace(one, numa=0) if one.is_whole and one.numa is None else one for one in records]
    if rest.startswith("{"):
        named = CUT_NAME.match(rest)
        records.append(Record(uuid=clean(named[1], 100) if named else "", form="json", is_whole=False))
    return records, bool(rest)


def _json_entries(text: str) -> tuple[list[object], str]:
    """(elements of a JSON list, what follows them in one that is cut or broken)."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return whole, ""
    decoder, at = json.JSONDecoder(), 1
    found: list[object] = []
    while len(found) <= MOST_RECORDS:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if not isinstance(entry, dict):
            break
        found.append(entry)
    return found, text[at:] or "["


def _believed(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Scraps count as a device only beside a record that stands."""
    is_register = any(record.is_whole for record in records)
    return tuple(record for record in records if record.is_whole or record.uuid or is_register)


def _in_their_places(records: tuple[Record, ...], key: str, warn: Warn) -> tuple[Record, ...]:
    """Each device once, with a place of its own: the one it tells, else its place in the list."""
    kept: list[Record] = []
    seen: set[str] = set()
    for record in records:
        if record.uuid and record.uuid in seen:
            warn(f"the annotation {key} names {brief(record.uuid)} twice: the first one counts")
            continue
        seen.add(record.uuid)
        kept.append(record)
    told = [record.index for record in kept if record.index is not None]
    if len(set(told)) != len(told):
        warn(f"the annotation {key} gives one index to several devices: their order counts instead")
        told = []
        kept = [replace(record, index=None) for record in kept]
    free = iter(place for place in range(len(kept) + len(told) + 1) if place not in set(told))
    return tuple(record if record.index is not None else replace(record, index=next(free)) for record in kept)
