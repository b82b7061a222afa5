"""Events have two faces, core/v1 and events.k8s.io/v1, on one stored object (kept in the core shape)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.simulator.api_server.kinds import Kind

# core name, events.k8s.io name
NAMES = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
TO_STORED = {new: core for core, new in NAMES}
TO_NEW = dict(NAMES)
ALWAYS: dict[str, Callable[[], Any]] = {
    "source": dict,
    "firstTimestamp": lambda: None,
    "lastTimestamp": lambda: None,
    "eventTime": lambda: None,
    "reportingComponent": str,
    "reportingInstance": str,
}


def _is_new_face(kind: Kind) -> bool:
    return kind.group == "events.k8s.io"


def has_faces(kind: Kind) -> bool:
    return kind.storage == "events"


def from_wire(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    """The stored shape of an event; other kinds come back as they are."""
    if not has_faces(kind):
        return obj
    if _is_new_face(kind):
        obj = {TO_STORED.get(key, key): value for key, value in obj.items()}
    for field, make in ALWAYS.items():
        obj.setdefault(field, make())
    return obj


def to_wire(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    if not _is_new_face(kind):
        return obj
    return {TO_NEW.get(key, key): value for key, value in obj.items()}
