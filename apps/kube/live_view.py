"""What a carrier of plans sees of a cluster without asking for it: a watch per kind, answered from memory.

It says when it does not know (`StaleView`): a stream that is not listed yet, was cut, or has been silent for
too long. An object that was just written is answered for only once the stream has brought that write, or the
server was asked.

Not in here: which looks may be answered from memory (that is for who decides), and any write.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from apps.kube.doubts import Doubt, never
from apps.kube.errors import KubeError
from apps.kube.gateway import NODES, PODS, PRIORITY_CLASSES, WEBHOOKS, Gateway, Json, Kind, WatchEvent
from apps.kube.kind_watch import KindWatch
from apps.kube.object_store import KeptObject, ObjectStore
from apps.kube.trimming import trim_object

HOSTNAME = "kubernetes.io/hostname"
Key = tuple[str, str]
Scope = tuple[Kind, str | None]
WHOLE = (WEBHOOKS, PRIORITY_CLASSES)
"""Of these more is read than is kept of them elsewhere; they hold no secrets."""
FIRST_SECONDS = 15.0
SILENCE_SECONDS = 90.0
WATCH_SECONDS = 270


class StaleView(Exception):
    """Ask the server: the view does not know."""


class LiveObject(KeptObject):
    """marks: by what it can be found, such as "node=gpu-7" ("node=" where it is not bound)."""

    __slots__ = ("marks",)

    def __init__(self, trimmed: Json, marks: tuple[str, ...]) -> None:
        super().__init__(trimmed)
        self.marks = marks


def by_namespace(name: str) -> str:
    return f"namespace={name}"


def by_node(name: str) -> str:
    return f"node={name}"


def by_owner(uid: str) -> str:
    return f"owner={uid}"


def by_hostname(name: str) -> str:
    return f"hostname={name}"


class LiveStore(ObjectStore):
    """Finds objects by their marks. notice: told of each change, outside of the store's lock."""

    def __init__(self, kind: Kind, notice: Callable[[Kind, LiveObject | None], None]) -> None:
        super().__init__(kind)
        self._found: dict[str, dict[Key, LiveObject]] = defaultdict(dict)
        self._notice = notice

    def keep(self, raw: Json) -> LiveObject:
        trimmed = _without_fields(raw) if self._kind in WHOLE else trim_object(self._kind, raw)
        return LiveObject(trimmed, _marks_of(self._kind, trimmed))

    def find(self, key: Key) -> LiveObject | None:
        with self._lock:
            found = self._objects.get(key)
        return found if isinstance(found, LiveObject) else None

    def find_all(self, mark: str) -> list[LiveObject]:
        with self._lock:
            return list(self._found.get(mark, {}).values())

    def apply(self, event: WatchEvent) -> bool:
        is_new = super().apply(event)
        if is_new:
            self._notice(self._kind, self.keep(event.object))
        return is_new

    def replace_all(self, listed: list[Any]) -> bool:
        is_new = super().replace_all(listed)
        self._notice(self._kind, None)
        return is_new

    def forget(self, key: Key) -> None:
        """The server says that it is not there. Its end may still come by the stream."""
        with self._lock:
            old = self._objects.pop(key, None)
            self._replaced(key, old, None)

    def _relisted(self) -> None:
        self._found.clear()
        for key, one in self._objects.items():
            self._replaced(key, None, one)

    def _replaced(self, key: Key, old: KeptObject | None, new: KeptObject | None) -> None:
        for mark in old.marks if isinstance(old, LiveObject) else ():
            self._found[mark].pop(key, None)
            if not self._found[mark]:
                del self._found[mark]
        for mark in new.marks if isinstance(new, LiveObject) else ():
            self._found[mark][key] = new  # type: ignore[assignment]


class LiveView:
    """gateway: whoever closes it ends the streams. kinds: which may be followed, each from its first look on.
    namespaced: of these only the namespaces that are asked for.
    wakes: whether a change is worth a look of whoever sleeps in `wait`; None stands for a whole new list."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        kinds: Iterable[Kind],
        namespaced: Iterable[Kind] = (),
        wakes: Callable[[Kind, LiveObject | None], bool] = lambda kind, found: True,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._kinds = frozenset(kinds)
        self._namespaced = frozenset(namespaced)
        self._wakes = wakes
        self._silence_seconds = silence_seconds
        self._streams: dict[Scope, tuple[KindWatch, LiveStore]] = {}
        self._doubts: dict[tuple[Kind, Key], Doubt] = {}
        self._news = threading.Condition()
        self._is_awake = False

    # --- looking ---

    def get_object(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json | None:
        """As the gateway's. Raises StaleView."""
        store = self._store_of(kind, namespace)
        key = (namespace or "", name)
        self._settle(kind, store, key)
        found = store.find(key)
        return found.open() if found is not None else None

    def list_objects(self, kind: Kind, mark: str, *, namespace: str | None = None) -> list[Json]:
        """Those with that mark ("" for all). Raises StaleView."""
        store = self._store_of(kind, namespace)
        for other, key in [*self._doubts]:
            if other == kind:
                self._settle(kind, store, key)
        found = store.find_all(mark) if mark else store.objects()
        return [one.open() for one in found]

    def list_kept(self, kind: Kind, *, within: float) -> list[KeptObject]:
        """All of a kind, from a stream that gave a sign of life within so many seconds. Raises StaleView."""
        store = self._store_of(kind, None)
        if self.age(kind) > within or any(other == kind for other, _ in [*self._doubts]):
            raise StaleView
        return store.objects()

    def age(self, kind: Kind, namespace: str | None = None) -> float:
        """Seconds since the kind's stream last gave a sign of life; infinity where it cannot be relied on."""
        stream = self._streams.get(self._scope_of(kind, namespace))
        if stream is None or not _is_reliable(stream[0]):
            return float("inf")
        return time.monotonic() - stream[0].heard_at

    def note_seen(self, kind: Kind, name: str, found: Json | None, *, namespace: str | None = None) -> None:
        """What the server answered just now."""
        key = (namespace or "", name)
        self._doubts.pop((kind, key), None)
        stream = self._streams.get(self._scope_of(kind, namespace))
        if stream is not None:
            stream[1].forget(key) if found is None else stream[1].apply(WatchEvent("MODIFIED", found))

    # --- what was written ---

    def note_written(self, kind: Kind, written: Json) -> None:
        """The server's answer to a create or a patch: it may come before the stream tells."""
        metadata = written.get("metadata") or {}
        self.note_seen(kind, str(metadata.get("name", "")), written, namespace=metadata.get("namespace"))

    def doubt(self, kind: Kind, name: str, doubt: Doubt, *, namespace: str | None = None) -> None:
        """Until the stream has brought what was written (or the server was asked) nothing is known of it."""
        self._doubts[kind, (namespace or "", name)] = doubt

    # --- waiting ---

    def wait(self, seconds: float) -> bool:
        """Sleep until something happens that is worth a look, at most so long. True if something did."""
        with self._news:
            was_awake = self._news.wait_for(lambda: self._is_awake, timeout=seconds)
            self._is_awake = False
        return was_awake

    def wake(self) -> None:
        """End the sleep of whoever is in `wait`, now or next."""
        with self._news:
            self._is_awake = True
            self._news.notify_all()

    def stop(self) -> None:
        """Ask the streams to end; closing the gateway wakes them up."""
        for watch, _ in self._streams.values():
            watch.stop()

    def join(self, seconds: float = 1.0) -> None:
        deadline = time.monotonic() + seconds
        for watch, _ in self._streams.values():
            watch.join(max(deadline - time.monotonic(), 0.01))

    def _scope_of(self, kind: Kind, namespace: str | None) -> Scope:
        return (kind, namespace if kind in self._namespaced else None)

    def _store_of(self, kind: Kind, namespace: str | None) -> LiveStore:
        if kind not in self._kinds or (kind in self._namespaced and not namespace):
            raise StaleView
        scope = self._scope_of(kind, namespace)
        watch, store = self._streams.get(scope) or self._begin(scope)
        with self._news:
            known = self._news.wait_for(lambda: watch.is_settled or watch.lost_at, timeout=FIRST_SECONDS)
        if not known or not _is_reliable(watch):
            raise StaleView
        if time.monotonic() - watch.heard_at > self._silence_seconds:
            raise StaleView
        return store

    def _begin(self, scope: Scope) -> tuple[KindWatch, LiveStore]:
        kind, namespace = scope
        store = LiveStore(kind, self._notice)
        watch = KindWatch(
            self._gateway,
            kind,
            on_change=self._tell,
            watch_seconds=WATCH_SECONDS,
            namespace=namespace,
            store=store,
            is_optional=kind not in (PODS, NODES),
            streams_list=True,
            silence_seconds=self._silence_seconds,
        )
        self._streams[scope] = (watch, store)
        watch.start()
        return watch, store

    def _settle(self, kind: Kind, store: LiveStore, key: Key) -> None:
        doubt = self._doubts.get((kind, key))
        if doubt is None:
            return
        if doubt.is_over is not never:
            with self._news:
                self._news.wait_for(lambda: doubt.is_over(store.find(key)), timeout=doubt.patience)
        if doubt.is_over(store.find(key)):
            self._doubts.pop((kind, key), None)
            return
        namespace, name = key
        try:
            found = self._gateway.get_object(kind, name, namespace=namespace or None)
        except KubeError:
            raise StaleView from None
        self.note_seen(kind, name, found, namespace=namespace or None)

    def _notice(self, kind: Kind, found: LiveObject | None) -> None:
        with self._news:
            self._is_awake = self._is_awake or self._wakes(kind, found)
            self._news.notify_all()

    def _tell(self) -> None:
        """A stream was listed, or has a problem: whoever waits for the first list looks again."""
        with self._news:
            self._news.notify_all()


def _is_reliable(watch: KindWatch) -> bool:
    return watch.is_listed and watch.lost_at is None


def _without_fields(raw: Json) -> Json:
    metadata = {key: value for key, value in (raw.get("metadata") or {}).items() if key != "managedFields"}
    return {**raw, "metadata": metadata}


def _marks_of(kind: Kind, thing: Json) -> tuple[str, ...]:
    metadata = thing["metadata"]
    if kind == NODES:
        return (by_hostname(str((metadata.get("labels") or {}).get(HOSTNAME, ""))),)
    marks = (by_namespace(str(metadata.get("namespace", ""))),)
    if kind != PODS:
        return marks
    owners = metadata.get("ownerReferences") or ()
    owner = next((str(one.get("uid", "")) for one in owners if one.get("controller")), "")
    node = str((thing.get("spec") or {}).get("nodeName") or "")
    return (*marks, by_node(node), by_owner(owner)) if owner else (*marks, by_node(node))
