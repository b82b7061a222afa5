"""What the cluster remembers: objects per kind, one revision counter, a ring of changes per kind.

Objects are dicts without kind and apiVersion and are never changed in place: a writer takes a copy,
changes it and puts it. Each revision's JSON is encoded once and shared by reads and watches.
Rules, admission and HTTP are not here.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

Key = tuple[str, str]  # namespace ("" for cluster scope), name
HISTORY = 20_000


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


def encode(value: Any) -> bytes:
    return _encode(value).encode()


class Stored:
    """One object at one revision, with its JSON."""

    __slots__ = ("body", "obj", "revision")

    def __init__(self, obj: dict[str, Any], revision: int) -> None:
        self.obj, self.revision, self.body = obj, revision, encode(obj)

    def copy(self) -> dict[str, Any]:
        return json.loads(self.body)


class Change:
    """One step of a table. `before` is None for ADDED; for DELETED `after` is the last object with the
    revision of its deletion."""

    __slots__ = ("after", "before", "key", "lines", "revision", "type")

    def __init__(self, change_type: str, key: Key, before: Stored | None, after: Stored) -> None:
        self.type, self.key, self.before, self.after = change_type, key, before, after
        self.revision = after.revision
        self.lines: dict[tuple[str, str], bytes] = {}  # encoded watch lines, once for all watchers


Snapshot = tuple[list[Key], dict[Key, Stored]]


class Listener(Protocol):
    def offer(self, change: Change) -> None: ...


class TooOld(Exception):
    """The asked revision lies before what the table still remembers."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class Table:
    """All objects of one kind, in key order, and their latest changes."""

    def __init__(self) -> None:
        self.objects: dict[Key, Stored] = {}
        self.order: list[Key] = []
        self.by_node: dict[str, dict[Key, Stored]] = {}
        self.history: deque[Change] = deque(maxlen=HISTORY)
        self.oldest = 0  # all changes after this revision are in the history
        self.listeners: set[Listener] = set()
        self._past: tuple[int, Snapshot] | None = None

    def record(self, change: Change) -> None:
        if len(self.history) == self.history.maxlen:
            self.oldest = self.history[0].revision
        self.history.append(change)
        self._place(change)
        for listener in tuple(self.listeners):
            listener.offer(change)

    def _place(self, change: Change) -> None:
        key, before, after = change.key, change.before, change.after
        if before is not None and (node := before.obj.get("spec", {}).get("nodeName")):
            self.by_node.get(node, {}).pop(key, None)
        if change.type == "DELETED":
            del self.objects[key]
            del self.order[bisect_left(self.order, key)]
            return
        if change.type == "ADDED":
            insort(self.order, key)
        self.objects[key] = after
        if node := after.obj.get("spec", {}).get("nodeName"):
            self.by_node.setdefault(node, {})[key] = after

    def forget_history(self, revision: int) -> None:
        self.history.clear()
        self._past = None
        self.oldest = revision

    def after(self, revision: int) -> Iterator[Change]:
        """The changes after a revision, oldest first; TooOld when some are forgotten."""
        if revision < self.oldest:
            raise TooOld(revision, self.oldest)
        newer: list[Change] = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            newer.append(change)
        return reversed(newer)

    def at(self, revision: int) -> Snapshot:
        """The table as it was at a revision, by undoing the changes since. The last one made is kept."""
        if self._past is not None and self._past[0] == revision and revision >= self.oldest:
            return self._past[1]
        changes = list(self.after(revision))
        if not changes:
            return self.order, self.objects
        state = dict(self.objects)
        for change in reversed(changes):
            if change.before is None:
                state.pop(change.key, None)
            else:
                state[change.key] = change.before
        past = (sorted(state), state)
        self._past = (revision, past)
        return past


class Store:
    """Every table and the one revision counter."""

    def __init__(self) -> None:
        self.revision = 1
        self.tables: dict[str, Table] = {}

    def table(self, storage: str) -> Table:
        table = self.tables.get(storage)
        if table is None:
            table = self.tables[storage] = Table()
        return table

    def get(self, storage: str, namespace: str, name: str) -> Stored | None:
        table = self.tables.get(storage)
        return table.objects.get((namespace, name)) if table else None

    def snapshot(self, storage: str, revision: int) -> Snapshot:
        """A table at a revision: its keys in order, and its objects. TooOld when that is forgotten."""
        table = self.table(storage)
        if revision >= self.revision:
            return table.order, table.objects
        return table.at(revision)

    def in_namespace(self, storage: str, namespace: str) -> Iterable[Stored]:
        table = self.table(storage)
        start = bisect_left(table.order, (namespace, ""))
        for place in range(start, len(table.order)):
            key = table.order[place]
            if key[0] != namespace:
                return
            yield table.objects[key]

    def put(self, storage: str, obj: dict[str, Any]) -> Stored:
        """Stores an object under the next revision, as a new one or in the place of the old one."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        table = self.table(storage)
        before = table.objects.get(key)
        after = self._stamp(obj)
        table.record(Change("MODIFIED" if before else "ADDED", key, before, after))
        return after

    def drop(self, storage: str, key: Key, *, final: dict[str, Any] | None = None) -> Stored:
        """Removes an object; answers its final state with the revision of its removal."""
        table = self.table(storage)
        before = table.objects[key]
        after = self._stamp(before.copy() if final is None else final)
        table.record(Change("DELETED", key, before, after))
        return after

    def _stamp(self, obj: dict[str, Any]) -> Stored:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return Stored(obj, self.revision)
