"""A small asyncio client of the Kubernetes API, for the simulated controllers only.

Holds: one HTTP session, the verbs the controllers need, list and watch of one resource.
Not here: caching (controllers/informers) and any knowledge of what the objects mean. It speaks
plain HTTP(S), so every controller also runs against a real API server.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp

Json = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
USER_AGENT = "simulated-cluster"
_WATCH_SECONDS = 240
_WATCH_SILENCE_SECONDS = 330


class ApiError(Exception):
    """The API server refused. status: HTTP code; reason and message as in its Status body."""

    def __init__(self, status: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message
        self.details = details or {}


@dataclass(frozen=True, slots=True)
class Resource:
    """Where one kind of object lives in the API."""

    plural: str
    kind: str
    api: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        parts = [root]
        if self.namespaced and namespace:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


PODS = Resource("pods", "Pod")
NODES = Resource("nodes", "Node", namespaced=False)
NAMESPACES = Resource("namespaces", "Namespace", namespaced=False)
SERVICE_ACCOUNTS = Resource("serviceaccounts", "ServiceAccount")
CONFIG_MAPS = Resource("configmaps", "ConfigMap")
SECRETS = Resource("secrets", "Secret")
LEASES = Resource("leases", "Lease", "coordination.k8s.io/v1")
EVENTS = Resource("events", "Event", "events.k8s.io/v1")
DEPLOYMENTS = Resource("deployments", "Deployment", "apps/v1")
REPLICA_SETS = Resource("replicasets", "ReplicaSet", "apps/v1")
STATEFUL_SETS = Resource("statefulsets", "StatefulSet", "apps/v1")
DAEMON_SETS = Resource("daemonsets", "DaemonSet", "apps/v1")
JOBS = Resource("jobs", "Job", "batch/v1")
BUDGETS = Resource("poddisruptionbudgets", "PodDisruptionBudget", "policy/v1")
PRIORITY_CLASSES = Resource("priorityclasses", "PriorityClass", "scheduling.k8s.io/v1", namespaced=False)
POD_GROUPS = Resource("podgroups", "PodGroup", "scheduling.x-k8s.io/v1alpha1")


class KubernetesClient:
    """server: URL without a trailing slash. ca_pem: PEM text of its CA, "" for plain HTTP."""

    def __init__(self, *, server: str, ca_pem: str = "", token: str = "", connections: int = 100) -> None:
        self.server = server.rstrip("/")
        self._ssl: ssl.SSLContext | bool = ssl.create_default_context(cadata=ca_pem) if ca_pem else True
        self._token = token
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> KubernetesClient:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=self._ssl)
        headers = {"User-Agent": USER_AGENT}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        assert self._session, "use 'async with KubernetesClient(...)'"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        timeout = aiohttp.ClientTimeout(sock_connect=30, sock_read=60)
        async with self._session.request(
            method, self.server + path, data=data, params=params, headers=headers, timeout=timeout
        ) as response:
            text = await response.read()
            if response.status >= 400:
                raise _error_of(response.status, text)
            return json.loads(text) if text else {}

    async def list(self, resource: Resource, namespace: str = "") -> tuple[list[Json], str]:
        """All objects and the revision of the list."""
        answer = await self.request("GET", resource.path(namespace))
        return answer.get("items") or [], answer["metadata"]["resourceVersion"]

    async def watch(self, resource: Resource, revision: str) -> AsyncIterator[tuple[str, Json]]:
        """(event type, object) until the server ends the watch; raises ApiError on an ERROR event."""
        assert self._session
        params = {
            "watch": "1",
            "resourceVersion": revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(sock_connect=30, sock_read=_WATCH_SILENCE_SECONDS)
        url = self.server + resource.path()
        async with self._session.get(url, params=params, timeout=timeout) as response:
            if response.status >= 400:
                raise _error_of(response.status, await response.read())
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event_of(line)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        return await self.request("GET", resource.path(namespace, name))

    async def create(self, resource: Resource, namespace: str, body: Json) -> Json:
        full = {"apiVersion": resource.api, "kind": resource.kind, **body}
        return await self.request("POST", resource.path(namespace), body=full)

    async def replace(self, resource: Resource, body: Json, subresource: str = "") -> Json:
        meta = body["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"], subresource)
        full = {"apiVersion": resource.api, "kind": resource.kind, **body}
        return await self.request("PUT", path, body=full)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Json,
        *,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> Json:
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, body=body, content_type=content_type)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Json:
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self.request("DELETE", resource.path(namespace, name), body=options)

    async def bind(self, pod: Json, node: str) -> None:
        meta = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.request("POST", PODS.path(meta["namespace"], meta["name"], "binding"), body=body)


def _error_of(status: int, text: bytes) -> ApiError:
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if not isinstance(body, dict):
        body = {}
    message = body.get("message") or text[:200].decode(errors="replace")
    return ApiError(status, body.get("reason", ""), message, body.get("details"))


def _event_of(line: bytes) -> tuple[str, Json]:
    event = json.loads(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
    return event["type"], event["object"]
