"""The gateway to a live cluster: the requests that `gateway.Gateway` names, over HTTPS.

Raw JSON in and out (typed models cost seconds on large clusters). One request per call, never
repeated here: the callers know whether an effect may be sent again. How bytes travel stands in
`connection`, what a status means in `answers`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import urllib3

from apps.kube import errors
from apps.kube.answers import error_of, read_named, read_object, read_page
from apps.kube.connection import MERGE_PATCH, STRATEGIC_PATCH, Answer, Connection, Request
from apps.kube.discovery import is_served
from apps.kube.event_body import event_body
from apps.kube.eviction_body import binding, eviction
from apps.kube.gateway import EVENTS, NAMESPACES, PODS, Json, Kept, Kind, ObjectList, WatchEvent
from apps.kube.identity import Identity
from apps.kube.kubeconfig import Credentials
from apps.kube.paths import dry, object_path, selectors
from apps.kube.reviews import ACCESS, RULES, Rules, access_review, is_allowed, read_rules, rules_review
from apps.kube.sent import Observer, tell
from apps.kube.streams import read_events

PAGE = 500
OWNED_LABEL = "defrag.gpu.internal/owned"
WATCH_SILENCE_SECONDS = 100.0
WATCH_GRACE_SECONDS = 30.0
LIST_FIRST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


class KubernetesGateway:
    """Credentials as in `kubeconfig.Credentials`. pinned_uid: UID of kube-system as registered, ""
    before. watch_silence_seconds: a watch that brings not even a bookmark for so long is given up.
    Safe to share between threads."""

    def __init__(
        self,
        *,
        server: str,
        ca: str = "",
        token: str = "",
        client_certificate: str = "",
        client_key: str = "",
        tls_server_name: str = "",
        skip_tls_verify: bool = False,
        connect_seconds: float = 3,
        read_seconds: float = 10,
        watch_silence_seconds: float = WATCH_SILENCE_SECONDS,
        pinned_uid: str = "",
    ) -> None:
        credentials = Credentials(
            server=server,
            ca=ca,
            token=token,
            client_certificate=client_certificate,
            client_key=client_key,
            tls_server_name=tls_server_name,
            skip_tls_verify=skip_tls_verify,
        )
        self._connection = Connection(credentials, connect_seconds=connect_seconds, read_seconds=read_seconds)
        self._watch_silence_seconds = watch_silence_seconds
        self._identity = Identity(pinned_uid, self.cluster_uid)
        self._streams: set[urllib3.BaseHTTPResponse] = set()
        self._streams_lock = threading.Lock()
        self._is_closed = False
        self._observer: Observer | None = None

    def observe(self, observer: Observer) -> None:
        """Tell it of every request from now on, watches apart."""
        self._observer = observer

    def version(self) -> str:
        request = Request("GET", "/version")
        return str(read_object(self._ask(request), request).get("gitVersion", ""))

    def cluster_uid(self) -> str:
        request = Request("GET", object_path(NAMESPACES, "kube-system"))
        found = read_object(self._ask(request), request)
        uid = found.get("metadata", {}).get("uid")
        if not isinstance(uid, str) or not 0 < len(uid) <= 64:
            raise errors.ServerFailed(f"{request.words}: the namespace has no UID. Is this an API server?")
        return uid

    def prove_identity(self) -> None:
        """One small request: is it there, does it accept us, is it still the same cluster?"""
        if self._identity.is_pinned:
            self._identity.prove(now=True)
        else:
            self.cluster_uid()

    def list_objects(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> ObjectList:
        query = selectors(label_selector, field_selector)
        return ObjectList(*self._list_all(object_path(kind, namespace=namespace), query, lambda raw: raw))

    def list_reduced(
        self,
        kind: Kind,
        reduce: Callable[[Json], Kept],
        *,
        namespace: str | None = None,
        field_selector: str = "",
    ) -> tuple[list[Kept], str]:
        query = selectors("", field_selector)
        return self._list_all(object_path(kind, namespace=namespace), query, reduce)

    def watch(
        self,
        kind: Kind,
        *,
        resource_version: str,
        seconds: int,
        namespace: str | None = None,
        begins_with_list: bool = False,
        silence_seconds: float | None = None,
        field_selector: str = "",
    ) -> Iterator[WatchEvent]:
        self._identity.prove()
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        query |= selectors("", field_selector)
        query |= LIST_FIRST if begins_with_list else {"resourceVersion": resource_version}
        request = Request("GET", object_path(kind, namespace=namespace), query)
        deadline = time.monotonic() + seconds + WATCH_GRACE_SECONDS
        silence = silence_seconds or self._watch_silence_seconds
        response = self._connection.open_stream(request, silence_seconds=silence)
        with self._streams_lock:
            self._streams.add(response)
            is_closed = self._is_closed
        try:
            if is_closed:
                raise errors.BrokenStream(f"{request.words}: this gateway was closed meanwhile.")
            if response.status != 200:
                raise error_of(Answer(response.status, response.headers, response.data), request)
            yield from read_events(response, request, deadline=deadline)
        finally:
            with self._streams_lock:
                self._streams.discard(response)
            response.close()

    def get_object(self, kind: Kind, name: str, *, namespace: str | None = None) -> Json | None:
        self._identity.prove()
        request = Request("GET", object_path(kind, name, namespace=namespace))
        try:
            return read_named(self._ask(request), request, name)
        except errors.NotFound:
            return None

    def create_object(
        self, kind: Kind, body: Json, *, namespace: str | None = None, dry_run: bool = False
    ) -> Json:
        path = object_path(kind, namespace=namespace)
        return self._write(Request("POST", path, dry(dry_run), body))

    def patch_object(
        self,
        kind: Kind,
        name: str,
        body: Json,
        *,
        namespace: str | None = None,
        subresource: str = "",
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Json:
        path = object_path(kind, name, namespace=namespace, subresource=subresource)
        content_type = STRATEGIC_PATCH if strategic else MERGE_PATCH
        return self._write(Request("PATCH", path, dry(dry_run), body, content_type))

    def delete_own_object(
        self, kind: Kind, name: str, *, uid: str, namespace: str | None = None, seen: Json | None = None
    ) -> None:
        found = seen or self.get_object(kind, name, namespace=namespace)
        if found is None:
            return
        metadata = found.get("metadata", {})
        where = f"{kind.plural} {namespace + '/' if namespace else ''}{name}"
        if metadata.get("uid") != uid:
            raise errors.Conflict(f"{where}: not the object to delete, its UID is {metadata.get('uid')!r}.")
        if not (metadata.get("labels") or {}).get(OWNED_LABEL):
            raise errors.Forbidden(
                f"{where}: refused to delete it, it does not carry the label {OWNED_LABEL}."
            )
        preconditions = {"uid": uid}
        if seen is not None:
            preconditions["resourceVersion"] = str(metadata.get("resourceVersion", ""))
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        try:
            self._write(Request("DELETE", object_path(kind, name, namespace=namespace), {}, body))
        except errors.NotFound:
            return

    def evict_pod(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        version: str = "",
    ) -> None:
        body = eviction(
            namespace, name, uid=uid, grace_seconds=grace_seconds, dry_run=dry_run, version=version
        )
        path = object_path(PODS, name, namespace=namespace, subresource="eviction")
        self._write(Request("POST", path, dry(dry_run), body))

    def bind_pod(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Raises Conflict where the pod has a node already, or another UID."""
        if not uid:
            raise errors.Invalid(f"binding of {namespace}/{name}: refused without the pod's UID.")
        path = object_path(PODS, name, namespace=namespace, subresource="binding")
        self._write(Request("POST", path, {}, binding(namespace, name, uid=uid, node=node)))

    def may(
        self, verb: str, kind: Kind, *, namespace: str = "", subresource: str = "", name: str = ""
    ) -> bool:
        body = access_review(verb, kind, namespace=namespace, subresource=subresource, name=name)
        return is_allowed(self.create_object(ACCESS, body))

    def serves(self, kind: Kind) -> bool:
        return is_served(lambda request: read_object(self._ask(request), request), kind)

    def own_rules(self, namespace: str) -> Rules:
        return read_rules(self.create_object(RULES, rules_review(namespace)))

    def record_event(self, involved: Mapping[str, str], *, reason: str, message: str) -> None:
        """involved: kind, apiVersion, name, uid and (unless cluster-scoped) namespace."""
        body = event_body(involved, reason=reason, message=message)
        self.create_object(EVENTS, body, namespace=body["metadata"]["namespace"])

    def end_streams(self) -> None:
        """Cut every watch that is being read, from any thread: their readers get a BrokenStream."""
        with self._streams_lock:
            streams = list(self._streams)
        for stream in streams:
            # It may end by itself at this very moment.
            with contextlib.suppress(ValueError, OSError, RuntimeError, AttributeError):
                stream.shutdown()

    def close(self) -> None:
        """End the watches and give the connections back. The gateway is of no use afterwards."""
        with self._streams_lock:
            self._is_closed = True
        self.end_streams()
        self._connection.close()

    def _list_all(
        self, path: str, query: dict[str, str], reduce: Callable[[Json], Kept]
    ) -> tuple[list[Kept], str]:
        self._identity.prove()
        try:
            return self._list_pages(path, query, reduce)
        except errors.Expired:
            # A continue token outlived its revision: pages of two revisions must not be mixed.
            return self._list_pages(path, query, reduce)

    def _list_pages(
        self, path: str, query: dict[str, str], reduce: Callable[[Json], Kept]
    ) -> tuple[list[Kept], str]:
        objects: list[Kept] = []
        query = {**query, "limit": str(PAGE)}
        while True:
            request = Request("GET", path, query)
            page = read_page(self._ask(request), request)
            found = page.get("items")
            objects += [
                reduce(raw) for raw in (found if isinstance(found, list) else ()) if isinstance(raw, dict)
            ]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return objects, str(metadata.get("resourceVersion", ""))
            query = {**query, "continue": str(metadata["continue"])}

    def _write(self, request: Request) -> Json:
        self._identity.prove()
        return read_object(self._ask(request), request)

    def _ask(self, request: Request) -> Answer:
        try:
            answer = self._connection.ask(request)
        except errors.Unreachable as error:
            self._identity.forget()
            tell(self._observer, request, 0, str(error))
            raise
        tell(self._observer, request, answer.status)
        return answer
