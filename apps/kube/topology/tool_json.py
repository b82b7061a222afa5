"""Reads what rocm-smi, hy-smi and amd-smi write with --json or --csv."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apps.kube.topology.reading import MOST_GPUS, Cells, Reading

CARD = re.compile(r"(?:card|gpu|dcu|hcu|device) ?\[?(\d{1,5})\]?", re.IGNORECASE)
PAIR = re.compile(
    r"\(Topology\) (Weight|Hops|Link type) between (?:DRM )?devices (\d{1,5}) and (\d{1,5})", re.I
)
ITSELF = frozenset({"SELF", "0", "X"})
UNTOLD = "the text tells no links between the GPUs: they are unknown"
SAME_FORM = "rocm-smi and hy-smi write this form alike: the maker is the likelier one"


def read_cards(document: Mapping[str, Any]) -> Reading | None:
    """rocm-smi and hy-smi: {"card0": {"(Topology) Numa Node": "0"}, "system": {"… devices 0 and 1":
    "XGMI"}}."""
    cards = {int(found.group(1)): key for key in document if (found := CARD.fullmatch(str(key)))}
    facts = [facts for facts in document.values() if isinstance(facts, dict)]
    if not any("(Topology)" in str(key) for one in facts for key in one):
        return None
    pairs = _pairs(facts)
    told = [index for ends in pairs for index in ends[1:]]
    size = max([*cards, *told], default=-1) + 1
    if not 0 < size <= MOST_GPUS:
        return Reading(error=f"{size} GPUs in one table are not believable", complete=False, nics=None)
    nodes = {
        card: next((value for name, value in document[key].items() if "numa node" in str(name).lower()), None)
        for card, key in cards.items()
        if isinstance(document[key], dict)
    }
    links = _matrix(size, lambda a, b: pairs.get(("link type", min(a, b), max(a, b)), ""))
    has_links = any(kind == "link type" for kind, _, _ in pairs) or (size == 1 and "system" in document)
    is_dealt_out = list(cards) != sorted(cards)
    by_name = "hygon" if is_dealt_out or any("cu" in str(key).lower() for key in document) else "amd"
    whole = has_links and all(all(row) for row in links)
    warnings = () if has_links else (UNTOLD, SAME_FORM)
    return Reading(
        vendor=by_name,
        gpus=size,
        names=tuple(f"GPU{at}" for at in range(size)),
        links=links if has_links else None,
        numa=tuple(whole_number(nodes.get(at)) for at in range(size)) if any(nodes.values()) else None,
        weights=_numbers(pairs, "weight", size),
        hops=_numbers(pairs, "hops", size),
        complete=whole,
        warnings=warnings if whole or not has_links else ("links between some GPUs are missing",),
    )


def _pairs(facts: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, int], str]:
    found: dict[tuple[str, int, int], str] = {}
    for one in facts:
        for key, value in one.items():
            told = PAIR.search(str(key)[:200])
            if told and len(str(value)) <= 20:
                a, b = sorted((int(told.group(2)), int(told.group(3))))
                found[(told.group(1).lower(), a, b)] = str(value).strip()
    return found


def _numbers(pairs: Mapping[tuple[str, int, int], str], kind: str, size: int) -> Any:
    if not any(one == kind for one, _, _ in pairs):
        return None
    return tuple(
        tuple(0 if a == b else whole_number(pairs.get((kind, min(a, b), max(a, b)))) for b in range(size))
        for a in range(size)
    )


def _matrix(size: int, code: Callable[[int, int], str]) -> Cells:
    return tuple(tuple("X" if a == b else code(a, b) for b in range(size)) for a in range(size))


def read_amd_list(document: Sequence[Any]) -> Reading | None:
    """amd-smi topology --json: [{"gpu": 0, "bdf": "…", "links": [{"gpu": 1, "link_type": "XGMI", …}]}]."""
    entries = [one for one in document if isinstance(one, dict) and isinstance(one.get("links"), list)]
    if not entries or not all("gpu" in one or "bdf" in one for one in entries):
        return None
    if len(entries) > MOST_GPUS:
        return Reading(
            error=f"{len(entries)} GPUs in one table are not believable", complete=False, nics=None
        )
    keys = [_key(one, at) for at, one in enumerate(entries)]
    told: dict[tuple[str, str], Mapping[str, Any]] = {}
    for key, entry in zip(keys, entries, strict=True):
        told |= {(key, _key(link, -1)): link for link in entry["links"][:MOST_GPUS] if isinstance(link, dict)}
    others = sorted({b for _, b in told} - set(keys))
    order = [*keys, *others]

    def code(a: int, b: int) -> str:
        word = str(told.get((order[a], order[b]), {}).get("link_type", ""))[:20].strip()
        return "" if word in ITSELF else word

    def number(name: str) -> Any:
        return tuple(
            tuple(0 if a == b else whole_number(told.get((a, b), {}).get(name)) for b in order) for a in order
        )

    size = min(len(order), MOST_GPUS)
    links = _matrix(size, code)
    addresses = tuple(str(one.get("bdf", ""))[:40].lower() for one in entries)
    whole = not others and all(all(row) for row in links)
    return Reading(
        vendor="amd",
        gpus=size,
        names=tuple(f"GPU{at}" for at in range(size)),
        links=links,
        hops=number("num_hops"),
        weights=number("weight"),
        bus_ids=addresses if all(addresses) and not others else (),
        complete=whole,
        warnings=() if whole else ("links between some GPUs are missing",),
    )


def _key(entry: Mapping[str, Any], at: int) -> str:
    return str(entry.get("bdf") or entry.get("gpu", at))[:40]


def whole_number(value: object) -> int | None:
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if text.isdecimal() and len(text) < 5 else None


def read_csv(text: str) -> Reading | None:
    """--csv of rocm-smi and hy-smi: "device,(Topology) Numa Node,…" and a line for each card and the
    system."""
    cards: dict[str, dict[str, str]] = {}
    header: list[str] = []
    for row in _csv_rows(text):
        if row and row[0].strip().lower() == "device":
            header = [cell.strip() for cell in row]
        elif header and len(row) > 1 and (CARD.fullmatch(row[0].strip()) or row[0].strip() == "system"):
            facts = dict(zip(header[1:], (cell.strip() for cell in row[1:]), strict=False))
            cards.setdefault(row[0].strip(), {}).update({key: value for key, value in facts.items() if value})
    found = read_cards(cards) if cards else None
    return replace(found, source="text") if found is not None else None


def _csv_rows(text: str) -> Iterator[list[str]]:
    if "," not in text:
        return
    try:
        yield from csv.reader(line[:100_000] for line in text.replace("\x00", "").splitlines())
    except csv.Error:
        return
