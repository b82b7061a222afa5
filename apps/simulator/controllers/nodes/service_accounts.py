"""Gives every namespace its default service account, without which no pod is admitted."""

from __future__ import annotations

from apps.simulator.client import NAMESPACES, SERVICE_ACCOUNTS, ApiError
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import is_terminating, key_of


class ServiceAccounts(Controller):
    name = "service-account"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.namespaces = context.informers.store(NAMESPACES)
        self.accounts = context.informers.store(SERVICE_ACCOUNTS)

    async def run(self) -> None:
        self.namespaces.subscribe(self._on_change)
        self.accounts.subscribe(self._on_change)
        await super().run()

    def _on_change(self, change: Change) -> None:
        name = change.object["metadata"].get("namespace") or key_of(change.object)
        # The simulated API server makes it by itself; a moment later there is nothing to do.
        self.enqueue(name, after=0.1)

    async def sync(self, key: str) -> None:
        namespace = self.namespaces.get(key)
        if namespace is None or is_terminating(namespace) or self.accounts.get(f"{key}/default"):
            return
        try:
            await self.client.create(
                SERVICE_ACCOUNTS, key, {"metadata": {"name": "default", "namespace": key}}
            )
        except ApiError as error:
            if error.status not in (403, 409):
                raise
