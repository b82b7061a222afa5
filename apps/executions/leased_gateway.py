"""The door to Kubernetes as steps have it: under a lease, and with a live view that answers what it can.

Which looks the view may answer, and which must be the server's own, is decided in docs/decisions/0070.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.conf import settings

from apps.executions.locks import Lease, steady_now
from apps.kube.doubts import Doubt, is_gone_or_leaving, is_newer_than, never
from apps.kube.errors import Conflict, KubeError, NotSent
from apps.kube.gateway import BUDGETS, NODES, PODS, Gateway, Json, Kind
from apps.kube.live_view import (
    LiveView,
    StaleView,
    by_hostname,
    by_namespace,
    by_node,
    by_owner,
)
from apps.kube.object_store import KeptObject, list_kept

REQUESTS_PER_CALL = 3
"""The door proves the cluster's identity and looks before a delete: up to so many requests a call."""
LOOK_SECONDS = 2.0
"""How old the last sign of life of the watch of pods may be when a pod is evicted by what it says."""
Answer = TypeVar("Answer")


def seconds_per_call() -> float:
    """How long one call through the door may take at most."""
    return REQUESTS_PER_CALL * float(settings.KUBE_CONNECT_SECONDS + settings.KUBE_READ_SECONDS)


def lease_seconds() -> float:
    """As it is set, and never so short that no request could begin under it."""
    return max(float(settings.EXECUTION_LEASE_SECONDS), 1.25 * seconds_per_call())


class LeasedGateway:
    """The door to Kubernetes, shut as soon as the lease could run out during a request.

    Before a write the database is asked, by its clock: a machine that was suspended knows no better.
    Looks are answered by the view where there is one and it knows; `fresh` asks the server whatever it says.
    """

    def __init__(self, gateway: Gateway, lease: Lease, view: LiveView | None = None) -> None:
        self._gateway = gateway
        self._lease = lease
        self._view = view
        self._seconds = seconds_per_call()
        self._budgets: dict[str, Json] = {}
        self._ask_left: Callable[[], float] | None = None

    @contextmanager
    def while_ours(self, ask_left: Callable[[], float]) -> Iterator[None]:
        """Within, a write leaves only while the cluster is this console's for as long as it may take: what
        was asked before the intent may be long ago when the request is to leave. ask_left: for how many
        seconds, by the database; believed from before it is asked, on a clock that goes on, as by
        `Lease.renew`."""
        self._ask_left = ask_left
        try:
            yield
        finally:
            self._ask_left = None

    def get_object(
        self, kind: Kind, name: str, *, namespace: str | None = None, fresh: bool = False
    ) -> Json | None:
        self._lease.ensure(self._seconds)
        if self._view is not None and not fresh:
            try:
                return self._view.get_object(kind, name, namespace=namespace)
            except StaleView:
                pass
        found = self._gateway.get_object(kind, name, namespace=namespace)
        if self._view is not None:
            self._view.note_seen(kind, name, found, namespace=namespace)
        return found

    def list_objects(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        fresh: bool = False,
    ) -> list[Json]:
        """fresh: a consistent LIST, as it must be after a cordon."""
        self._lease.ensure(self._seconds)
        if self._view is not None and not fresh:
            try:
                return _find(self._view, kind, namespace, label_selector, field_selector)
            except StaleView:
                pass
        return self._gateway.list_objects(
            kind, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        ).objects

    def list_owned_pods(self, namespace: str, owner_uid: str) -> list[Json]:
        """The pods of one controller; without a view all of the namespace, which its owner tells apart."""
        self._lease.ensure(self._seconds)
        if self._view is not None:
            try:
                return self._view.list_objects(PODS, by_owner(owner_uid))
            except StaleView:
                pass
        return self._gateway.list_objects(PODS, namespace=namespace).objects

    def list_kept(self, kind: Kind) -> list[KeptObject]:
        """Always the server's own answer."""
        return list_kept(self._gateway, kind, before_each=lambda: self._lease.ensure(self._seconds))

    def create_object(self, kind: Kind, body: Json, *, namespace: str | None = None) -> Json:
        self._make_sure()
        name = str((body.get("metadata") or {}).get("name", ""))
        written = self._write(
            kind, name, namespace, lambda: self._gateway.create_object(kind, body, namespace=namespace)
        )
        self._note_written(kind, written)
        return written

    def would_create(self, kind: Kind, body: Json, *, namespace: str | None = None) -> Json:
        """What the object would look like; by dry run, so nothing is created."""
        self._lease.ensure(self._seconds)
        return self._gateway.create_object(kind, body, namespace=namespace, dry_run=True)

    def patch_object(
        self,
        kind: Kind,
        name: str,
        body: Json,
        *,
        namespace: str | None = None,
        subresource: str = "",
        strategic: bool = False,
    ) -> Json:
        self._make_sure()
        written = self._write(
            kind,
            name,
            namespace,
            lambda: self._gateway.patch_object(
                kind, name, body, namespace=namespace, subresource=subresource, strategic=strategic
            ),
        )
        self._note_written(kind, written)
        return written

    def delete_own_object(self, kind: Kind, name: str, *, uid: str, namespace: str | None = None) -> None:
        self._make_sure()
        seen = self._seen(kind, name, namespace)
        if seen is not None and (seen.get("metadata") or {}).get("uid") != uid:
            seen = None
        self._write(
            kind,
            name,
            namespace,
            lambda: self._gateway.delete_own_object(kind, name, uid=uid, namespace=namespace, seen=seen),
        )
        self._doubt(kind, name, Doubt(is_gone_or_leaving(uid)), namespace)

    def evict_pod(
        self, namespace: str, name: str, *, uid: str, dry_run: bool = False, version: str = ""
    ) -> None:
        """Never with a grace period: the pod's own stands. A look that is older than LOOK_SECONDS is taken
        again first: an eviction that fails on its UID would still have spent the budget."""
        if not dry_run:
            self._look_again(namespace, name, uid)
        self._make_sure()
        self._write(
            PODS,
            name,
            namespace,
            lambda: self._gateway.evict_pod(namespace, name, uid=uid, dry_run=dry_run, version=version),
        )
        if dry_run:
            return
        self._doubt(PODS, name, Doubt(is_gone_or_leaving(uid)), namespace)
        budget = self._budgets.pop(uid, None)
        if budget is not None:
            metadata = budget["metadata"]
            self._doubt(
                BUDGETS, metadata["name"], Doubt(is_newer_than(metadata["resourceVersion"])), namespace
            )

    def expect_spending(self, uid: str, budget: Json) -> None:
        """The pod's eviction will change this budget: it is not believed before that is seen."""
        self._budgets[uid] = budget

    def _make_sure(self) -> None:
        """Right before a write. Raises LostLease, and NotSent where the cluster may be another console's."""
        if self._ask_left is None:
            self._lease.renew(self._seconds)
            return
        asked_at = steady_now()
        until = asked_at + self._ask_left()
        self._lease.renew(self._seconds)
        if until - steady_now() < self._seconds:
            raise NotSent("This console may have lost the Lease of the cluster meanwhile: nothing was sent.")

    def _look_again(self, namespace: str, name: str, uid: str) -> None:
        if self._view is None or self._view.age(PODS) <= LOOK_SECONDS:
            return
        found = self.get_object(PODS, name, namespace=namespace, fresh=True)
        metadata = (found or {}).get("metadata") or {}
        if metadata.get("uid") != uid or metadata.get("deletionTimestamp"):
            raise Conflict(f"pod {namespace}/{name} changed just before its eviction: nothing was sent.")

    def _seen(self, kind: Kind, name: str, namespace: str | None) -> Json | None:
        if self._view is None:
            return None
        try:
            return self._view.get_object(kind, name, namespace=namespace)
        except StaleView:
            return None

    def _write(self, kind: Kind, name: str, namespace: str | None, send: Callable[[], Answer]) -> Answer:
        """Whatever is refused or lost shows that the view is behind, or that nobody knows: ask again."""
        try:
            return send()
        except KubeError:
            self._doubt(kind, name, Doubt(never), namespace)
            raise

    def _note_written(self, kind: Kind, written: Json) -> None:
        if self._view is not None:
            self._view.note_written(kind, written)

    def _doubt(self, kind: Kind, name: str, doubt: Doubt, namespace: str | None) -> None:
        if self._view is not None:
            self._view.doubt(kind, name, doubt, namespace=namespace)


def _find(view: LiveView, kind: Kind, namespace: str | None, labels: str, fields: str) -> list[Json]:
    """Raises StaleView also where only the server can tell what a selector finds."""
    if not labels and not fields:
        return view.list_objects(kind, by_namespace(namespace) if namespace else "", namespace=namespace)
    found = re.fullmatch(r"(metadata\.name|spec\.nodeName|kubernetes\.io/hostname)=([^,=]*)", labels + fields)
    if found is None:
        raise StaleView
    key, value = found.groups()
    if fields and key == "metadata.name" and (namespace or not kind.namespaced):
        one = view.get_object(kind, value, namespace=namespace)
        return [one] if one is not None else []
    if fields and key == "spec.nodeName" and kind == PODS and not namespace:
        return view.list_objects(kind, by_node(value))
    if labels and key == "kubernetes.io/hostname" and kind == NODES:
        return view.list_objects(kind, by_hostname(value))
    raise StaleView
