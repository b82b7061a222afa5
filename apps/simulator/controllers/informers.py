"""Caches of API objects kept by list and watch, shared by all controllers of one program.

A store calls its handlers synchronously, in the order of the revisions. Handlers must not block:
they enqueue. Not here: writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiohttp

from apps.simulator.client import ApiError, KubernetesClient, Resource
from apps.simulator.controllers.objects import controller_of, key_of, node_of, uid_of

Json = dict[str, Any]
log = logging.getLogger(__name__)


class Change(NamedTuple):
    """kind: ADDED, MODIFIED or DELETED. before: the object as it was known, None when new."""

    kind: str
    object: Json
    before: Json | None


Handler = Callable[[Change], None]
IndexKey = Callable[[Json], str]


@dataclass(frozen=True, slots=True)
class _Index:
    key: IndexKey
    entries: dict[str, dict[str, Json]]


def owner_uid(thing: Json) -> str:
    reference = controller_of(thing)
    return reference["uid"] if reference else ""


_INDEXES: dict[str, IndexKey] = {
    "owner": owner_uid,
    "namespace": lambda thing: thing["metadata"].get("namespace") or "",
    "node": lambda thing: node_of(thing) if "spec" in thing else "",
}


class Store:
    """Objects of one resource by key "namespace/name" (or "name"), and by some indexes."""

    def __init__(self, resource: Resource, indexes: tuple[str, ...] = ()) -> None:
        self.resource = resource
        self.objects: dict[str, Json] = {}
        self.by_uid: dict[str, Json] = {}
        self.synced = asyncio.Event()
        self._handlers: list[Handler] = []
        self._indexes = {name: _Index(_INDEXES[name], defaultdict(dict)) for name in indexes}

    def subscribe(self, handler: Handler) -> None:
        """Objects already known are told as ADDED at once."""
        self._handlers.append(handler)
        for thing in list(self.objects.values()):
            handler(Change("ADDED", thing, None))

    def get(self, key: str) -> Json | None:
        return self.objects.get(key)

    def select(self, index: str, value: str) -> list[Json]:
        return list(self._indexes[index].entries.get(value, {}).values())

    def apply(self, kind: str, thing: Json) -> None:
        key = key_of(thing)
        before = self.objects.get(key)
        if before is not None and uid_of(before) != uid_of(thing) and kind != "DELETED":
            self._forget(key, before)
            self._tell(Change("DELETED", before, before))
            before = None
        if before is not None:
            self._forget(key, before)
        if kind != "DELETED":
            self._remember(key, thing)
            kind = "ADDED" if before is None else "MODIFIED"
        elif before is None:
            return
        self._tell(Change(kind, thing, before))

    def replace_all(self, things: list[Json]) -> None:
        """After a list: tells only the differences."""
        seen = {key_of(thing) for thing in things}
        for key in [key for key in self.objects if key not in seen]:
            self.apply("DELETED", self.objects[key])
        for thing in things:
            known = self.objects.get(key_of(thing))
            version = thing["metadata"].get("resourceVersion")
            if known is None or known["metadata"].get("resourceVersion") != version:
                self.apply("MODIFIED", thing)
        self.synced.set()

    def _remember(self, key: str, thing: Json) -> None:
        self.objects[key] = thing
        self.by_uid[uid_of(thing)] = thing
        for index in self._indexes.values():
            value = index.key(thing)
            if value:
                index.entries[value][key] = thing

    def _forget(self, key: str, thing: Json) -> None:
        del self.objects[key]
        self.by_uid.pop(uid_of(thing), None)
        for index in self._indexes.values():
            value = index.key(thing)
            entries = index.entries.get(value)
            if entries is not None:
                entries.pop(key, None)
                if not entries:
                    del index.entries[value]

    def _tell(self, change: Change) -> None:
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:
                log.exception("a handler of %s failed on %s", self.resource.plural, key_of(change.object))


class Informers:
    """One store and one reflector per resource, started on demand."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._stores: dict[str, Store] = {}

    def store(self, resource: Resource) -> Store:
        if resource.plural not in self._stores:
            names = ["owner"] + (["namespace"] if resource.namespaced else [])
            if resource.plural == "pods":
                names.append("node")
            self._stores[resource.plural] = Store(resource, tuple(names))
        return self._stores[resource.plural]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for store in self._stores.values():
                group.create_task(_reflect(self._client, store))

    async def wait_synced(self) -> None:
        for store in self._stores.values():
            await store.synced.wait()


async def _reflect(client: KubernetesClient, store: Store) -> None:
    """List once, watch for ever; list again only when the server says that the revision is gone."""
    revision = ""
    delay = 0.05
    while True:
        try:
            if not revision:
                things, revision = await client.list(store.resource)
                store.replace_all(things)
            async for kind, thing in client.watch(store.resource, revision):
                revision = thing["metadata"]["resourceVersion"]
                delay = 0.05
                if kind != "BOOKMARK":
                    store.apply(kind, thing)
        except ApiError as error:
            log.info("watch of %s: %s", store.resource.plural, error)
            revision = ""
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # The stream may have been cut inside a line: what was missed is asked for again.
            log.info("watch of %s broke: %s", store.resource.plural, error)
        else:
            continue
        await asyncio.sleep(delay)
        delay = min(delay * 2, 5.0)
