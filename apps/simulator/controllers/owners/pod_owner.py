"""What all owners of pods share: finding their pods, making them from a template, not making twice.

A watch lags behind the writes, so an owner remembers what it created or deleted until the watch
shows it; otherwise it would create the same pod again. Not here: how many pods an owner wants.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from copy import deepcopy
from typing import Any

from apps.simulator.client import PODS, ApiError, Resource
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import controller_of, key_of, reference_to, uid_of

Json = dict[str, Any]


class PodOwner(Controller):
    """Subclasses name their resource; keys are "namespace/name" of the owner."""

    resource: Resource

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.owners = context.informers.store(self.resource)
        self.pods = context.informers.store(PODS)
        self._created: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        self._deleted: defaultdict[str, set[str]] = defaultdict(set)

    def subscribe(self) -> None:
        self.owners.subscribe(self._on_owner)
        self.pods.subscribe(self._on_pod)

    async def run(self) -> None:
        self.subscribe()
        await super().run()

    def _on_owner(self, change: Change) -> None:
        if change.kind == "DELETED":
            self._created.pop(uid_of(change.object), None)
            self._deleted.pop(uid_of(change.object), None)
        else:
            self.enqueue(key_of(change.object))

    def _on_pod(self, change: Change) -> None:
        for pod in (change.object, change.before):
            owner = controller_of(pod) if pod else None
            if pod and owner and owner["kind"] == self.resource.kind:
                self._created[owner["uid"]].pop(uid_of(pod), None)
                if change.kind == "DELETED" or pod["metadata"].get("deletionTimestamp"):
                    self._deleted[owner["uid"]].discard(uid_of(pod))
                self.enqueue(f"{pod['metadata']['namespace']}/{owner['name']}")

    def pods_of(self, owner: Json) -> list[Json]:
        """Its pods as the watch shows them, with what was created since and marked what was
        deleted since."""
        uid = uid_of(owner)
        pods = self.pods.select("owner", uid)
        known = {uid_of(pod) for pod in pods}
        pods += [pod for made, pod in self._created[uid].items() if made not in known]
        return [_as_deleted(pod) if uid_of(pod) in self._deleted[uid] else pod for pod in pods]

    async def create_pod(self, owner: Json, body: Json) -> Json:
        pod = await self.client.create(PODS, owner["metadata"]["namespace"], body)
        if uid_of(pod) not in self.pods.by_uid:
            self._created[uid_of(owner)][uid_of(pod)] = pod
        return pod

    async def delete_pod(self, owner: Json, pod: Json) -> None:
        meta = pod["metadata"]
        self._deleted[uid_of(owner)].add(meta["uid"])
        try:
            await self.client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])
        except ApiError as error:
            self._deleted[uid_of(owner)].discard(meta["uid"])
            if error.status not in (404, 409):
                raise

    async def write_status(self, owner: Json, status: Json) -> None:
        """Only what differs is written."""
        known = owner.get("status") or {}
        if any(known.get(name) != value for name, value in status.items()):
            meta = owner["metadata"]
            body = {"metadata": {"uid": meta["uid"]}, "status": status}
            await self.client.patch(
                self.resource, meta["namespace"], meta["name"], body, subresource="status"
            )


def make_pod(owner: Json, resource: Resource, template: Json, *, name: str = "", prefix: str = "") -> Json:
    """A pod body from a template: name, or a prefix the server completes."""
    meta = deepcopy(template.get("metadata") or {})
    meta["namespace"] = owner["metadata"]["namespace"]
    meta["ownerReferences"] = [reference_to(owner, resource)]
    meta["labels"] = dict(meta.get("labels") or {})
    if name:
        meta["name"] = name
    else:
        meta["generateName"] = prefix or f"{owner['metadata']['name']}-"
    return {"metadata": meta, "spec": deepcopy(template["spec"])}


_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def hash_template(template: Json, salt: int = 0) -> str:
    """Short and stable, in the letters Kubernetes uses for it."""
    text = json.dumps([template, salt], sort_keys=True)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_SAFE))
        letters.append(_SAFE[rest])
    return "".join(letters)


def _as_deleted(pod: Json) -> Json:
    meta = {**pod["metadata"]}
    meta.setdefault("deletionTimestamp", "pending")
    return {**pod, "metadata": meta}
