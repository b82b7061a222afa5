"""The objects of one kind as the watch knows them, safe to read while it goes on.

An object is kept as text, a tenth of what it takes as dicts, and opened by whoever reads it: a large
cluster has a hundred thousand of them, of which a handful changes between two snapshots.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from apps.kube.errors import NotFound
from apps.kube.gateway import Gateway, Json, Kind, WatchEvent
from apps.kube.trimming import trim_object


class KeptObject:
    """A trimmed API object. uid and revision: as it says itself, "" where it does not."""

    __slots__ = ("namespace", "name", "uid", "revision", "_text")

    def __init__(self, trimmed: Json) -> None:
        metadata = trimmed["metadata"]
        self.namespace = sys.intern(_word(metadata, "namespace"))
        self.name = _word(metadata, "name")
        self.uid = _word(metadata, "uid")
        self.revision = _word(metadata, "resourceVersion")
        self._text = json.dumps(trimmed, separators=(",", ":"))

    def open(self) -> Json:
        """A new dict at each call."""
        found: Json = json.loads(self._text)
        return found

    @property
    def number(self) -> int:
        """Revisions are integers in practice; where one is not, every event counts as news."""
        return int(self.revision) if self.revision.isdecimal() and len(self.revision) < 20 else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptObject) and self._text == other._text

    __hash__ = None  # type: ignore[assignment]


def list_kept(
    gateway: Gateway, kind: Kind, *, before_each: Callable[[], None] = lambda: None
) -> list[KeptObject]:
    """All objects of a kind as they are kept: the whole list as dicts would take ten times as much.

    Asked for in the newest version that the server has; raises NotFound if it has none. before_each is
    called before every request.
    """
    *newer, last = kind.versions
    for version in newer:
        before_each()
        try:
            return gateway.list_reduced(version, ObjectStore(kind).keep)[0]
        except NotFound:
            continue
    before_each()
    return gateway.list_reduced(last, ObjectStore(kind).keep)[0]


class ObjectStore:
    """Keyed by namespace and name, as the API is. Duplicated and reordered events do no harm."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._objects: dict[tuple[str, str], KeptObject] = {}
        self._deleted: dict[tuple[str, str], int] = {}

    def keep(self, raw: Json) -> KeptObject:
        """What is kept of an object that the API gave."""
        return KeptObject(trim_object(self._kind, raw))

    def replace_all(self, listed: list[KeptObject]) -> bool:
        """What a LIST says. True if it differs from what was known."""
        objects = {(one.namespace, one.name): one for one in listed}
        with self._lock:
            is_new = objects != self._objects
            self._objects = objects
            self._deleted = {}
            self._relisted()
        return is_new

    def apply(self, event: WatchEvent) -> bool:
        """One ADDED, MODIFIED or DELETED. False for an event that is older than what is known."""
        found = self.keep(event.object)
        key, revision = (found.namespace, found.name), found.number
        with self._lock:
            known = self._objects.get(key)
            newest = max(known.number if known else 0, self._deleted.get(key, 0))
            if revision and revision < newest:
                return False
            if event.type == "DELETED":
                self._deleted[key] = revision
                self._objects.pop(key, None)
                self._replaced(key, known, None)
                return known is not None
            if revision and revision == newest and known is not None:
                return False
            self._objects[key] = found
            self._replaced(key, known, found)
            return True

    def clear(self) -> None:
        with self._lock:
            self._objects = {}
            self._deleted = {}
            self._relisted()

    def _relisted(self) -> None:
        """For stores that keep more than the objects; called with the lock held."""

    def _replaced(self, key: tuple[str, str], old: KeptObject | None, new: KeptObject | None) -> None:
        """As `_relisted`, for one object."""

    def objects(self) -> list[KeptObject]:
        with self._lock:
            return list(self._objects.values())


class NoticingStore(ObjectStore):
    """Tells of each object that came, changed or went: (key, the object or None). (None, None) is a whole
    new list. notice: called with the store's lock held; it must return at once."""

    def __init__(
        self, kind: Kind, notice: Callable[[tuple[str, str] | None, KeptObject | None], None]
    ) -> None:
        super().__init__(kind)
        self._notice = notice

    def _relisted(self) -> None:
        self._notice(None, None)

    def _replaced(self, key: tuple[str, str], old: KeptObject | None, new: KeptObject | None) -> None:
        if old is not None or new is not None:
            self._notice(key, new)


def _word(metadata: dict[str, Any], key: str) -> str:
    return str(metadata.get(key, ""))
