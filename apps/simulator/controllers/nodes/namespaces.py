"""The namespace controller: empties a namespace that is being deleted, then lets it go."""

from __future__ import annotations

from typing import Any

from apps.simulator.client import (
    BUDGETS,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    ApiError,
)
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import is_terminating, key_of

Json = dict[str, Any]

_CONTENTS = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    REPLICA_SETS,
    BUDGETS,
    CONFIG_MAPS,
    SECRETS,
    LEASES,
    SERVICE_ACCOUNTS,
    PODS,
)


class NamespaceController(Controller):
    name = "namespace"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.namespaces = context.informers.store(NAMESPACES)

    async def run(self) -> None:
        self.namespaces.subscribe(self._on_namespace)
        await super().run()

    def _on_namespace(self, change: Change) -> None:
        if change.kind != "DELETED" and is_terminating(change.object):
            self.enqueue(key_of(change.object))

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is None or not is_terminating(namespace):
            return
        if await self._empty(key):
            body = {"metadata": {"name": key}, "spec": {"finalizers": []}}
            path = NAMESPACES.path("", key, "finalize")
            await self.client.request("PUT", path, body={"apiVersion": "v1", "kind": "Namespace", **body})
        else:
            self.enqueue(key, after=max(0.1, self.pace.seconds(2.0)))

    async def _empty(self, namespace: str) -> bool:
        """True when nothing is left."""
        left = 0
        for resource in _CONTENTS:
            things, _ = await self.client.list(resource, namespace)
            left += len(things)
            for thing in things:
                if is_terminating(thing):
                    continue
                try:
                    await self.client.delete(resource, namespace, thing["metadata"]["name"])
                except ApiError as error:
                    if error.status not in (404, 409):
                        raise
        return left == 0
