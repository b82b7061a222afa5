"""The state of one simulated cluster: its store, the kinds it serves, and what the API server does by itself
when some objects appear (a CRD is served, a namespace gets its default service account)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import aiohttp

from apps.simulator.api_server.calls import now_text
from apps.simulator.api_server.custom_kinds import CRD, kinds_of_crd, resource_of_crd
from apps.simulator.api_server.decoding import tidy_object
from apps.simulator.api_server.kinds import Kind, KindTable
from apps.simulator.api_server.pod_defaults import set_condition
from apps.simulator.api_server.store import Change, Store, Stored
from apps.simulator.api_server.strategies import begin_object, begin_status, default_object

POD_GENERATION_MINOR = 33
ESTABLISH_SECONDS = 0.05
ACCOUNT_SECONDS = 0.02


class Cluster:
    """Everything the rooms share. One event loop owns it; a write between two awaits is atomic."""

    def __init__(self, ca_pem: str, *, minor: int) -> None:
        self.store = Store()
        self.minor = minor  # of the Kubernetes version whose ways are followed
        self.kinds = KindTable()
        if minor < POD_GENERATION_MINOR:
            pods = self.kinds.by_path["", "v1", "pods"]
            self.kinds.add(replace(pods, has_generation=False))
        self.ca_pem = ca_pem
        self.loop: asyncio.AbstractEventLoop | None = None
        self._client: aiohttp.ClientSession | None = None
        self.store.table(CRD).listeners.add(_CrdListener(self))
        self.store.table("namespaces").listeners.add(_NamespaceListener(self))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        return self.store.get(kind.storage, namespace, name)

    def http_client(self) -> aiohttp.ClientSession:
        """The one client that admission webhooks are asked with."""
        if self._client is None or self._client.closed:
            self._client = aiohttp.ClientSession(headers={"User-Agent": "kube-apiserver-admission"})
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    def later(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        """Runs an action soon, or at once while no event loop runs (seeding)."""
        if self.loop is None or self.loop.is_closed():
            action(*arguments)
        else:
            self.loop.call_later(seconds, action, *arguments)

    def seed(self, objects: Iterable[dict[str, Any]]) -> None:
        """Stores whole objects as they are; missing uids, times and namespaces are made."""
        for raw in objects:
            kind = self.kinds.by_kind(raw.get("apiVersion", ""), raw.get("kind", ""))
            if kind is None:
                raise ValueError(
                    f"cannot seed {raw.get('kind')} of {raw.get('apiVersion')}: no such kind; "
                    "seed its CustomResourceDefinition first"
                )
            self._seed_one(kind, raw)

    def _seed_one(self, kind: Kind, raw: dict[str, Any]) -> None:
        obj = tidy_object(kind, raw)
        metadata, status = obj["metadata"], obj.get("status")
        if kind.namespaced:
            namespace = metadata.setdefault("namespace", "default")
            if self.store.get("namespaces", "", namespace) is None:
                namespaces = self.kinds.find("", "v1", "namespaces")
                assert namespaces is not None
                self._seed_one(namespaces, {"metadata": {"name": namespace}})
        given = {key: metadata[key] for key in SEEDED_METADATA if key in metadata}
        begin_object(kind, obj)
        begin_status(kind, obj)
        obj["metadata"].update(given)
        if status is not None:
            obj["status"] = status
            default_object(kind, obj)
        self.store.put(kind.storage, obj)
        if kind.resource == CRD:
            self.establish(obj["metadata"]["name"])

    # --- what follows by itself

    def establish(self, name: str) -> None:
        """Marks a CRD as established and serves its URLs."""
        stored = self.store.get(CRD, "", name)
        if stored is None:
            return
        if not _is_established(stored.obj):
            crd = stored.copy()
            status = crd.setdefault("status", {})
            for condition, reason in (
                ("NamesAccepted", "NoConflicts"),
                ("Established", "InitialNamesAccepted"),
            ):
                entry = {"type": condition, "status": "True", "lastTransitionTime": now_text()}
                set_condition(status, {**entry, "reason": reason, "message": ""})
            status["acceptedNames"] = crd["spec"]["names"]
            status["storedVersions"] = [v["name"] for v in crd["spec"]["versions"] if v.get("storage")]
            stored = self.store.put(CRD, crd)
        self.serve(stored.obj)

    def serve(self, crd: dict[str, Any]) -> None:
        group, plural = resource_of_crd(crd)
        self.kinds.remove_group_kind(group, plural)
        for kind in kinds_of_crd(crd):
            self.kinds.add(kind)

    def withdraw(self, crd: dict[str, Any]) -> None:
        """A deleted CRD takes its URLs and its objects with it."""
        group, plural = resource_of_crd(crd)
        self.kinds.remove_group_kind(group, plural)
        table = self.store.table(f"{plural}.{group}")
        for key in list(table.order):
            self.store.drop(f"{plural}.{group}", key)

    def furnish(self, namespace: str) -> None:
        """The default service account and the CA bundle that every namespace gets."""
        stored = self.store.get("namespaces", "", namespace)
        if stored is None or stored.obj["metadata"].get("deletionTimestamp"):
            return
        for plural, name, content in (
            ("serviceaccounts", "default", {}),
            ("configmaps", "kube-root-ca.crt", {"data": {"ca.crt": self.ca_pem}}),
        ):
            kind = self.kinds.find("", "v1", plural)
            if kind is not None and self.get(kind, namespace, name) is None:
                obj = {"metadata": {"name": name, "namespace": namespace}, **content}
                begin_object(kind, obj)
                self.store.put(kind.storage, obj)


SEEDED_METADATA = (
    "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", ())
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


class _CrdListener:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def offer(self, change: Change) -> None:
        crd = change.after.obj
        if change.type == "DELETED":
            self.cluster.withdraw(crd)
        elif change.type == "ADDED":
            self.cluster.later(ESTABLISH_SECONDS, self.cluster.establish, crd["metadata"]["name"])
        elif _is_established(crd):
            self.cluster.serve(crd)


class _NamespaceListener:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def offer(self, change: Change) -> None:
        if change.type == "ADDED":
            self.cluster.later(ACCOUNT_SECONDS, self.cluster.furnish, change.key[1])
