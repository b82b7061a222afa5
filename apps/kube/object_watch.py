"""One named object of a cluster, followed by a watch of its own: knowing it costs no request per look.

Whole as the server has it, not trimmed: it is for small objects of our own that hold no secrets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from apps.kube.errors import KubeError
from apps.kube.gateway import Gateway, Json, Kind, WatchEvent
from apps.kube.kind_watch import KindWatch
from apps.kube.object_store import KeptObject, ObjectStore

FIRST_SECONDS = 5.0
WATCH_SECONDS = 270


class _WholeStore(ObjectStore):
    def keep(self, raw: Json) -> KeptObject:
        metadata = {
            key: value for key, value in (raw.get("metadata") or {}).items() if key != "managedFields"
        }
        return KeptObject({**raw, "metadata": metadata})


class ObjectWatch:
    """gateway: whoever closes it ends the stream. on_change: told of each change, from another thread.

    Nothing is asked before the first look. known_at: monotonic time of the last sure knowledge, of its making
    at first.
    """

    def __init__(
        self, gateway: Gateway, kind: Kind, name: str, *, namespace: str, on_change: Callable[[], None]
    ) -> None:
        self._gateway = gateway
        self._kind, self._name, self._namespace = kind, name, namespace
        self._on_change = on_change
        self._news = threading.Condition()
        self._store = _WholeStore(kind)
        self._watch: KindWatch | None = None
        self._asked: tuple[float, Json | None] | None = None
        self._refused: tuple[float, KubeError] | None = None
        self.known_at = time.monotonic()

    def read(self, *, max_age: float) -> Json | None:
        """The object as it was at most max_age seconds ago, None where there is none; asks the server where
        the stream has been silent for longer. Raises KubeError, for max_age seconds the same one."""
        watch = self._begin()
        with self._news:
            self._news.wait_for(lambda: watch.is_settled or watch.lost_at, timeout=FIRST_SECONDS)
        is_reliable = watch.is_listed and watch.lost_at is None
        now = time.monotonic()
        asked_at = self._asked[0] if self._asked else 0.0
        if is_reliable and watch.heard_at >= asked_at and now - watch.heard_at <= max_age:
            self.known_at = max(self.known_at, watch.heard_at)
            return next((one.open() for one in self._store.objects()), None)
        if self._asked is not None and now - asked_at <= max_age:
            return self._asked[1]
        return self._ask(max_age)

    def _ask(self, max_age: float) -> Json | None:
        now = time.monotonic()
        if self._refused is not None and now - self._refused[0] <= max_age:
            raise self._refused[1]
        try:
            found = self._gateway.get_object(self._kind, self._name, namespace=self._namespace)
        except KubeError as error:
            self._refused = (now, error)
            raise
        self._asked, self._refused, self.known_at = (now, found), None, now
        if found is not None:
            # A stream that lags behind this answer does not take it back.
            self._store.apply(WatchEvent("MODIFIED", found))
        return found

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def join(self, seconds: float = 1.0) -> None:
        if self._watch is not None:
            self._watch.join(seconds)

    def _begin(self) -> KindWatch:
        if self._watch is None:
            self._watch = KindWatch(
                self._gateway,
                self._kind,
                on_change=self._tell,
                watch_seconds=WATCH_SECONDS,
                namespace=self._namespace,
                store=self._store,
                streams_list=True,
                field_selector=f"metadata.name={self._name}",
            )
            self._watch.start()
        return self._watch

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()
        self._on_change()
