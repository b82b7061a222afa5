"""Follows one kind of a cluster: list, watch, go on from the last revision, list again when in doubt.

It never ends by itself. What fails is remembered as a sentence and tried again later.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable

from apps.kube import errors
from apps.kube.gateway import Gateway, Kind, WatchEvent
from apps.kube.object_store import KeptObject, ObjectStore

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
TOLD_AFTER_SECONDS = 10.0


class KindWatch:
    """is_optional: a cluster without this kind is in order (404 is no problem).

    retry_seconds: pause after "no permission" or "no such kind", which time seldom mends.
    namespace: only the objects there. field_selector: only those that it finds. store: where they are kept.
    streams_list: have the watch begin with the list, which is one request instead of two; where the server
    cannot do that, it lists.
    heard_at: monotonic time of the last sign of life of the stream, bookmarks included.
    """

    def __init__(
        self,
        gateway: Gateway,
        kind: Kind,
        *,
        on_change: Callable[[], None],
        watch_seconds: int = 270,
        retry_seconds: float = 30.0,
        is_optional: bool = False,
        namespace: str | None = None,
        store: ObjectStore | None = None,
        streams_list: bool = False,
        silence_seconds: float | None = None,
        field_selector: str = "",
    ) -> None:
        self.kind = kind
        self._namespace = namespace
        self._selected = {"field_selector": field_selector} if field_selector else {}
        self._streams_list = streams_list
        self._silence_seconds = silence_seconds
        self.heard_at = time.monotonic()
        self._served = kind
        self._gateway = gateway
        self._on_change = on_change
        self._watch_seconds = watch_seconds
        self._retry_seconds = retry_seconds
        self._is_optional = is_optional
        self._store = store or ObjectStore(kind)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"watch-{kind.plural}", daemon=True)
        self._pause = FIRST_PAUSE_SECONDS
        self.problem = ""
        self.is_listed = False
        self.is_settled = False
        self.lost_at: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; ending the gateway's streams wakes it up."""
        self._stopping.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def objects(self) -> list[KeptObject]:
        return self._store.objects()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch_from(self._begin())
            except (errors.Forbidden, errors.NotFound) as error:
                self._give_up(error)
                self._stopping.wait(self._retry_seconds * random.uniform(0.8, 1.2))
            except (errors.Expired, errors.BrokenStream):
                self._lose()  # everyday life: listing again mends it
            except (errors.Unreachable, errors.AnotherCluster) as error:
                self._lose(error)
            except errors.KubeError as error:
                self._lose(error, is_answer=True, wait_seconds=error.retry_after or 0)
            except Exception as error:  # a thread that dies in silence would freeze the picture
                self._lose(type(error).__name__, is_answer=True)

    def _begin(self) -> str:
        """Know all objects; returns the revision that a watch goes on from."""
        if self._streams_list:
            try:
                return self._stream_list()
            except errors.Invalid:
                self._streams_list = False
        kept, revision = self._list_as_served()
        self._take_over(kept)
        return revision

    def _stream_list(self) -> str:
        events = self._open_watch("", begins_with_list=True)
        kept: list[KeptObject] = []
        for event in events:
            self.heard_at = time.monotonic()
            if event.type != "BOOKMARK":
                kept.append(self._store.keep(event.object))
            elif event.ends_list:
                self._take_over(kept)
                return self._apply_all(events, event.revision)
            if self._stopping.is_set():
                break
        raise errors.BrokenStream(f"{self.kind.plural}: the watch ended before it had listed everything.")

    def _take_over(self, kept: list[KeptObject]) -> None:
        self.heard_at = time.monotonic()
        changed = self._store.replace_all(kept)
        was_settled, had_problem = self.is_settled, bool(self.problem)
        self.is_listed = self.is_settled = True
        self.problem, self.lost_at = "", None
        if changed or had_problem or not was_settled:
            self._on_change()

    def _list_as_served(self) -> tuple[list[KeptObject], str]:
        """In the version that answered last, else in any that the server has."""
        for kind in (self._served, *(one for one in self.kind.versions if one != self._served)):
            try:
                found = self._gateway.list_reduced(
                    kind, self._store.keep, namespace=self._namespace, **self._selected
                )
            except errors.NotFound as error:
                missing = error
                continue
            self._served = kind
            return found
        raise missing

    def _watch_from(self, revision: str) -> None:
        """One watch after the other; only a whole stream that the server ended is gone on from."""
        while not self._stopping.is_set():
            began = time.monotonic()
            revision = self._apply_all(self._open_watch(revision), revision)
            if self._stopping.is_set():
                return
            if time.monotonic() - began < 1:
                # A server (or a proxy) that ends every watch at once must not be asked in a tight loop.
                self._stopping.wait(self._next_pause())

    def _open_watch(self, revision: str, *, begins_with_list: bool = False) -> Iterable[WatchEvent]:
        return self._gateway.watch(
            self._served,
            resource_version=revision,
            seconds=self._watch_seconds,
            namespace=self._namespace,
            begins_with_list=begins_with_list,
            silence_seconds=self._silence_seconds,
            **self._selected,
        )

    def _apply_all(self, events: Iterable[WatchEvent], revision: str) -> str:
        """Until the server ends the stream, or we are to end. Returns the last revision."""
        for event in events:
            self.heard_at = time.monotonic()
            self._pause = FIRST_PAUSE_SECONDS
            revision = event.revision or revision
            if event.type != "BOOKMARK" and self._store.apply(event):
                self._on_change()
            if self._stopping.is_set():
                break
        return revision

    def _give_up(self, error: errors.KubeError) -> None:
        is_absent = self._is_optional and self._is_not_there(error)
        self._store.clear()
        changed = not self.is_settled or self.is_listed != is_absent or bool(self.problem) == is_absent
        # An optional kind that does not exist is known to have no objects.
        self.is_listed, self.is_settled, self.lost_at = is_absent, True, None
        self.problem = "" if is_absent else self._say(error)
        if changed:
            self._on_change()

    def _is_not_there(self, error: errors.KubeError) -> bool:
        """A server refuses to list a kind before it looks whether there is such a kind."""
        if isinstance(error, errors.NotFound):
            return True
        try:
            return not self._gateway.serves(self.kind)
        except errors.KubeError:
            return False

    def _say(self, reason: object) -> str:
        """The planner keeps still where budgets are unread: it knows the kind by this name."""
        return f"{self.kind.plural} cannot be read: {reason}"

    def _lose(self, reason: object = None, *, is_answer: bool = False, wait_seconds: float = 0) -> None:
        """Try again after a pause. What lasts is told; what mends itself within seconds is not.

        is_answer: the server answered, and refused: the other kinds need not wait for this one.
        """
        if self._stopping.is_set():
            return
        self.lost_at = self.lost_at or time.time()
        has_lasted = not self.is_listed or time.time() - self.lost_at > TOLD_AFTER_SECONDS
        if reason is not None and has_lasted and self._say(reason) != self.problem:
            self.problem = self._say(reason)
            self.is_settled = self.is_settled or is_answer
            self._on_change()
        self._stopping.wait(max(self._next_pause(), min(wait_seconds, LONGEST_PAUSE_SECONDS)))

    def _next_pause(self) -> float:
        pause = self._pause * random.uniform(0.5, 1.5)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return pause
