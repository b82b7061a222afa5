"""The objects of one kind as the watch knows them, safe to read while it goes on."""

from __future__ import annotations

import threading
from typing import Any

from apps.kube.gateway import Json, Kind, ObjectList, WatchEvent
from apps.kube.trimming import trim_object


class ObjectStore:
    """Keyed by namespace and name, as the API is. Duplicated and reordered events do no harm."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], Json] = {}
        self._deleted: dict[tuple[str, str], int] = {}

    def replace_all(self, listed: ObjectList) -> bool:
        """What a LIST says. True if it differs from what was known."""
        trimmed = [trim_object(self._kind, raw) for raw in listed.objects if isinstance(raw, dict)]
        objects = {_key(raw): raw for raw in trimmed}
        with self._lock:
            is_new = objects != self._objects
            self._objects = objects
            self._deleted = {}
        return is_new

    def apply(self, event: WatchEvent) -> bool:
        """One ADDED, MODIFIED or DELETED. False for an event that is older than what is known."""
        raw = trim_object(self._kind, event.object)
        key, revision = _key(raw), _revision(raw)
        with self._lock:
            known = self._objects.get(key)
            newest = max(_revision(known) if known else 0, self._deleted.get(key, 0))
            if revision and revision < newest:
                return False
            if event.type == "DELETED":
                self._deleted[key] = revision
                return self._objects.pop(key, None) is not None
            if revision and revision == newest and known is not None:
                return False
            self._objects[key] = raw
            return True

    def clear(self) -> None:
        with self._lock:
            self._objects = {}
            self._deleted = {}

    def objects(self) -> list[Json]:
        with self._lock:
            return list(self._objects.values())


def _key(raw: dict[str, Any]) -> tuple[str, str]:
    metadata = raw["metadata"]
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _revision(raw: dict[str, Any]) -> int:
    """Revisions are integers in practice; where one is not, every event counts as news."""
    text = str(raw["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() and len(text) < 20 else 0
