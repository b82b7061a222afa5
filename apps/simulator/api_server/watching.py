"""WATCH: one queue per watcher, filled with lines that are encoded once for all watchers of a kind."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from aiohttp import web

from apps.simulator.api_server.calls import Call, read_number, read_revision
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.reading import whole_body
from apps.simulator.api_server.selectors import Selection, selection_of
from apps.simulator.api_server.statuses import ApiError, expired, forbidden_value, invalid_options
from apps.simulator.api_server.store import Change, Stored, TooOld, encode
from apps.simulator.api_server.tables import as_partial, as_table, wanted_shape

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0  # before a watch ends by its time: what it had seen is told once more
DEFAULT_SECONDS = 2400
STREAMING_LIST_MINOR = 34
INITIAL_END = "k8s.io/initial-events-end"


def line_of(event_type: str, body: bytes) -> bytes:
    return b'{"type":"' + event_type.encode() + b'","object":' + body + b"}\n"


class Watcher:
    """One open watch. Offered every change of its table; keeps the lines that its client should see."""

    def __init__(self, cluster: Cluster, call: Call, selection: Selection) -> None:
        self.kind, self.selection, self.query = call.kind, selection, call.query
        self.shape = wanted_shape(call.headers.get("Accept", ""))
        self.path = ""
        self.after = 0  # a watch from the future stays silent until its revision has passed
        self.seconds = read_number(call.query, "timeoutSeconds", DEFAULT_SECONDS)
        self.lines: deque[bytes] = deque()
        self.wake = asyncio.Event()
        self.ended = False
        self.cut_after: int | None = None  # a fault: so many events are whole, the next is cut
        self.silent = False  # a fault: the connection stays open and nothing comes
        self.table = cluster.store.table(call.kind.storage)

    def offer(self, change: Change) -> None:
        line = self._line(change) if change.revision > self.after else None
        if line is not None:
            self.push(line)

    def push(self, line: bytes) -> None:
        if not self.silent:
            self.lines.append(line)
            self.wake.set()

    def expire(self, error: ApiError) -> None:
        """Tells the client that it must list again, and ends."""
        self.push(line_of("ERROR", encode(error.body())))
        self.ended = True
        self.wake.set()

    def _line(self, change: Change) -> bytes | None:
        selection = self.selection
        if selection.namespace and change.key[0] != selection.namespace:
            return None
        if not selection.selects:
            return self._shared(change.type, change, change.after)
        was = change.before is not None and selection.matches(change.before.obj)
        fits = change.type != "DELETED" and selection.matches(change.after.obj)
        if was and fits:
            return self._shared("MODIFIED", change, change.after)
        if fits:
            return self._shared("ADDED", change, change.after)
        if not was:
            return None
        if change.type == "DELETED":
            return self._shared("DELETED", change, change.after)
        # It left the selector: the client gets the object it knew, under the new revision.
        assert change.before is not None
        old = change.before.copy()
        old["metadata"]["resourceVersion"] = str(change.revision)
        return self.render("DELETED", Stored(old, change.revision))

    def _shared(self, event_type: str, change: Change, stored: Stored) -> bytes:
        key = (event_type, self.kind.api_version if not self.shape else f"{id(self)}")
        line = change.lines.get(key)
        if line is None:
            line = self.render(event_type, stored)
            if not self.shape:
                change.lines[key] = line
        return line

    def render(self, event_type: str, stored: Stored) -> bytes:
        if self.shape == "table":
            return line_of(event_type, encode(as_table(self.kind, [stored], self.query)))
        if self.shape == "partial":
            return line_of(event_type, encode(as_partial(self.kind, stored)))
        return line_of(event_type, whole_body(self.kind, stored))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {INITIAL_END: "true"}
        body = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return line_of("BOOKMARK", encode(body))


class Watches:
    """All open watches, so that faults and the end of the server can reach them."""

    def __init__(self) -> None:
        self.open: set[Watcher] = set()

    def expire_all(self, cluster: Cluster, matches: Any) -> int:
        """Ends the matching watches with 410 and forgets the changes that would let them go on."""
        ended = [watcher for watcher in self.open if matches(watcher.path)]
        for watcher in ended:
            oldest = cluster.store.revision
            watcher.expire(expired(f"too old resource version: {watcher.table.oldest} ({oldest})"))
        for table in {id(w.table): w.table for w in ended}.values():
            table.forget_history(cluster.store.revision)
        return len(ended)

    def end_all(self) -> None:
        for watcher in self.open:
            watcher.ended = True
            watcher.wake.set()


def begin_watch(cluster: Cluster, call: Call) -> Watcher:
    """Checks the options, fills in the initial events and starts listening, all in one step."""
    query = call.query
    selection = selection_of(call.kind, call.namespace, query)
    asked = read_revision(query, minor=cluster.minor)
    streams_list = query.get("sendInitialEvents") in ("true", "1")
    if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", forbidden_value("resourceVersionMatch", why))
    if streams_list and cluster.minor < STREAMING_LIST_MINOR:
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise invalid_options("ListOptions", forbidden_value("sendInitialEvents", why))
    watcher = Watcher(cluster, call, selection)
    store, table = cluster.store, watcher.table
    if asked is None or asked == 0 or streams_list:
        for key in table.order:
            stored = table.objects[key]
            if selection.matches(stored.obj):
                watcher.lines.append(watcher.render("ADDED", stored))
        if _wants_bookmarks(query) and (streams_list or asked == 0):
            watcher.lines.append(watcher.bookmark(store.revision, initial_end=True))
    else:
        watcher.after = asked
        try:
            for change in table.after(asked):
                watcher.offer(change)
        except TooOld as error:
            watcher.expire(expired(str(error)))
            return watcher
    table.listeners.add(watcher)
    return watcher


def _wants_bookmarks(query: dict[str, str]) -> bool:
    return query.get("allowWatchBookmarks") in ("true", "1")


async def stream(
    cluster: Cluster, watches: Watches, watcher: Watcher, request: web.BaseRequest
) -> web.StreamResponse:
    """Sends lines until the time is up, the client goes, or the watch is ended."""
    loop = asyncio.get_running_loop()
    deadline, marks = loop.time() + watcher.seconds, _wants_bookmarks(watcher.query)
    next_bookmark = _next_bookmark(loop.time(), deadline)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    watches.open.add(watcher)
    try:
        await response.prepare(request)
        while True:
            watcher.wake.clear()
            if not await _flush(watcher, response, request) or watcher.ended or loop.time() >= deadline:
                break
            if marks and loop.time() >= next_bookmark:
                watcher.push(watcher.bookmark(cluster.store.revision))
                next_bookmark = _next_bookmark(loop.time(), deadline)
                continue
            wait = min(deadline, next_bookmark) - loop.time()
            with _ignore_timeout():
                await asyncio.wait_for(watcher.wake.wait(), max(wait, 0))
        await response.write_eof()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        watches.open.discard(watcher)
        watcher.table.listeners.discard(watcher)
    return response


def _next_bookmark(now: float, deadline: float) -> float:
    """About every minute, and shortly before the end."""
    last = deadline - LAST_BOOKMARK_SECONDS
    return min(now + BOOKMARK_SECONDS, last) if last > now else now + BOOKMARK_SECONDS


class _ignore_timeout:
    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, TimeoutError)


async def _flush(watcher: Watcher, response: web.StreamResponse, request: web.BaseRequest) -> bool:
    """Sends what waits in the queue; False when a fault has cut the stream."""
    while watcher.lines:
        batch: list[bytes] = []
        while watcher.lines and len(batch) < 500:
            line = watcher.lines.popleft()
            if watcher.cut_after is not None:
                if watcher.cut_after == 0:
                    await response.write(b"".join(batch) + line[: len(line) // 2])
                    if request.transport is not None:
                        request.transport.close()
                    return False
                watcher.cut_after -= 1
            batch.append(line)
        await response.write(b"".join(batch))
    return True
