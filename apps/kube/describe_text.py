"""Reads what `kubectl describe node` prints back into Node objects, as far as it tells of them.

It cuts long annotation values and ends them by "...": the dots stay, so that whoever reads the value sees
that it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from apps.kube.fragments import UNNAMED
from apps.kube.gateway import Json

FIELD = re.compile(r"^(?P<name>[A-Z][A-Za-z ]*):(?:[ \t]+(?P<value>\S.*))?$")
ANNOTATION = re.compile(r"^(?P<key>[A-Za-z0-9][A-Za-z0-9./_-]*):(?: (?P<value>.*))?$")
TAINT = re.compile(r"^(?P<key>[^\s=:]+)(?:=(?P<value>[^\s:]*))?:(?P<effect>[A-Za-z]+)$")
NAMES = ("Labels", "Annotations", "Capacity", "Allocatable", "Taints", "Conditions")
DATE = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
NONE = "<none>"


def is_description(text: str) -> bool:
    """Whether it looks like `kubectl describe node`."""
    names = {found["name"] for found in map(FIELD.match, _flush(text)[:2000]) if found}
    is_node = "Name" in names or {"Capacity", "Allocatable"} <= names  # the latter: cut out of one
    return is_node and "Namespace" not in names and len(names.intersection(NAMES)) >= 2


def read_description(text: str) -> list[Json]:
    """A Node for each part that begins with its name."""
    return [_node(part) for part in _parts(_flush(text))]


def _flush(text: str) -> list[str]:
    """The lines, moved left as far as the first field goes."""
    lines = [line.rstrip().expandtabs() for line in text.splitlines()]
    first = next((line for line in lines if line.lstrip().startswith("Name:")), "")
    indent = first[: len(first) - len(first.lstrip())]
    return [line.removeprefix(indent) for line in lines]


def _parts(lines: list[str]) -> Iterator[list[str]]:
    starts = [at for at, line in enumerate(lines) if line.startswith("Name:")] or [0]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        yield lines[start:end]


def _node(lines: list[str]) -> Json:
    fields = dict(_fields(lines))
    amounts = {key.lower(): _pairs(fields[key]) for key in ("Capacity", "Allocatable") if key in fields}
    metadata: Json = {
        "name": next(iter(fields.get("Name", ())), UNNAMED),
        "labels": dict(line.split("=", 1) for line in fields.get("Labels", ()) if "=" in line),
        "annotations": _annotations(fields.get("Annotations", ())),
    }
    if created := _moment(" ".join(fields.get("CreationTimestamp", ()))):
        metadata["creationTimestamp"] = created
    taints = [
        found.groupdict("") for line in fields.get("Taints", ()) if (found := TAINT.match(line.strip()))
    ]
    spec: Json = {"taints": taints, "unschedulable": fields.get("Unschedulable") == ["true"]}
    status: Json = {**amounts, "conditions": list(_conditions(fields.get("Conditions", ())))}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def _fields(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(name, its lines without their common indent)."""
    name, column = "", 0
    found: list[str] = []
    for line in lines:
        field = FIELD.match(line)
        if field is not None and not line.startswith(" "):
            if name:
                yield name, found
            name, found = field["name"], []
            value = field["value"]
            column = line.index(value, len(name) + 1) if value else 2
            found = [value] if value and value != NONE else []
        elif line.strip() and name:
            found.append(line[column:] if not line[:column].strip() else line.strip())
    if name:
        yield name, found


def _annotations(lines: list[str] | tuple[str, ...]) -> dict[str, str]:
    """A value stands behind its key, or below it and further in."""
    found: dict[str, str] = {}
    key = ""
    for line in lines:
        match = ANNOTATION.match(line)
        if match is not None:
            key = match["key"]
            found[key] = match["value"] or ""
        elif key and line.startswith(" "):
            found[key] = f"{found[key]}\n{line.strip()}" if found[key] else line.strip()
    return found


def _pairs(lines: list[str]) -> dict[str, str]:
    pairs = (line.strip().partition(":") for line in lines)
    return {key.strip(): value.strip() for key, colon, value in pairs if colon and value.strip()}


def _conditions(lines: list[str] | tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        words = line.split()
        if len(words) < 2 or words[0] == "Type" or words[0].startswith("-"):
            continue
        moments = [_moment(one) for one in DATE.findall(line)]
        reason = DATE.split(line)[-1].split() if moments else words[2:]
        yield {
            "type": words[0],
            "status": words[1],
            "lastHeartbeatTime": moments[0] if moments else None,
            "lastTransitionTime": moments[1] if len(moments) > 1 else None,
            "reason": reason[0] if reason else "",
        }


def _moment(text: str) -> str | None:
    try:
        return parsedate_to_datetime(text.strip()).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
