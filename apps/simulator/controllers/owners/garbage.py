"""The garbage collector: deletes what lost its owner; foreground and orphan deletion.

Owners and dependents are looked up in the caches by the owner reference that has controller true.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from apps.simulator.client import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiError,
    Resource,
)
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change, Store
from apps.simulator.controllers.objects import controller_of, is_terminating, key_of, uid_of

Json = dict[str, Any]

_OWNERS = {each.kind: each for each in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, NODES)}
_DEPENDENTS = (PODS, REPLICA_SETS, JOBS)
_SWEEP_SECONDS = 30.0


class GarbageCollector(Controller):
    name = "garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._owners = {kind: context.informers.store(resource) for kind, resource in _OWNERS.items()}
        self._dependents: list[Store] = [context.informers.store(each) for each in _DEPENDENTS]
        self.tick_seconds = max(0.5, context.pace.seconds(_SWEEP_SECONDS))

    async def run(self) -> None:
        for kind, store in self._owners.items():
            store.subscribe(partial(self._on_owner, kind))
        for store in self._dependents:
            store.subscribe(partial(self._on_dependent, store.resource.plural))
        await super().run()

    def _on_owner(self, kind: str, change: Change) -> None:
        if change.kind == "DELETED":
            for store in self._dependents:
                for thing in store.select("owner", uid_of(change.object)):
                    self.enqueue(f"{store.resource.plural}|{key_of(thing)}")
        elif is_terminating(change.object) and change.object["metadata"].get("finalizers"):
            self.enqueue(f"{kind}|{key_of(change.object)}")

    def _on_dependent(self, plural: str, change: Change) -> None:
        owner = controller_of(change.object)
        if owner is None or owner["kind"] not in self._owners:
            return
        if change.kind == "DELETED":
            known = self._owners[owner["kind"]].by_uid.get(owner["uid"])
            if known and is_terminating(known):
                self.enqueue(f"{owner['kind']}|{key_of(known)}")
        elif change.kind == "ADDED" and owner["uid"] not in self._owners[owner["kind"]].by_uid:
            # The owner's own watch may be behind: look again in a moment.
            self.enqueue(f"{plural}|{key_of(change.object)}", after=0.5)

    async def tick(self) -> None:
        for store in self._dependents:
            for key, thing in list(store.objects.items()):
                owner = controller_of(thing)
                if owner is None or owner["kind"] not in self._owners or is_terminating(thing):
                    continue
                if owner["uid"] not in self._owners[owner["kind"]].by_uid:
                    self.enqueue(f"{store.resource.plural}|{key}")

    async def sync(self, key: str) -> None:
        what, _, rest = key.partition("|")
        if what in self._owners:
            await self._finish_owner(_OWNERS[what], self._owners[what].get(rest))
            return
        for store in self._dependents:
            if store.resource.plural == what:
                await self._delete_orphan(store.resource, store.get(rest))

    async def _delete_orphan(self, resource: Resource, thing: Json | None) -> None:
        owner = controller_of(thing) if thing else None
        if thing is None or owner is None or is_terminating(thing):
            return
        meta = thing["metadata"]
        if await self._is_there(_OWNERS[owner["kind"]], owner, meta.get("namespace", "")):
            return
        try:
            await self.client.delete(resource, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _is_there(self, resource: Resource, owner: Json, namespace: str) -> bool:
        """Asked at the server: a cache may be behind."""
        try:
            known = await self.client.get(resource, namespace if resource.namespaced else "", owner["name"])
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return uid_of(known) == owner["uid"]

    async def _finish_owner(self, resource: Resource, owner: Json | None) -> None:
        """Foreground: dependents first, then the owner. Orphan: dependents are set free."""
        finalizers = (owner or {}).get("metadata", {}).get("finalizers") or []
        if owner is None or not {"foregroundDeletion", "orphan"} & set(finalizers):
            return
        orphaning = "orphan" in finalizers
        left = [(s.resource, each) for s in self._dependents for each in s.select("owner", uid_of(owner))]
        for kind, thing in left:
            meta = thing["metadata"]
            namespace = meta.get("namespace", "")
            if orphaning:
                body = {"metadata": {"uid": meta["uid"], "ownerReferences": None}}
                await self.client.patch(kind, namespace, meta["name"], body)
            elif not is_terminating(thing):
                await self.client.delete(kind, namespace, meta["name"], uid=meta["uid"])
        if left and not orphaning:
            return
        meta = owner["metadata"]
        rest = [each for each in finalizers if each not in ("foregroundDeletion", "orphan")]
        body = {"metadata": {"uid": meta["uid"], "finalizers": rest or None}}
        await self.client.patch(resource, meta.get("namespace", ""), meta["name"], body)
