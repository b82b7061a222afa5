"""The Lease by which the stock scheduler tells who leads: a new identity at every start, renewed.

As `leaderElection` of a configuration wants it; one program in one process always wins. Not here: scheduling.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid

from apps.simulator.client import LEASES, ApiError, KubernetesClient
from apps.simulator.controllers.controller import QUIET_ERRORS
from apps.simulator.controllers.pace import Pace, now, to_micro_text

NAMESPACE, NAME = "kube-system", "kube-scheduler"
DURATION_SECONDS, RENEW_SECONDS = 15, 10.0
log = logging.getLogger(__name__)


class Leading:
    def __init__(self, client: KubernetesClient, pace: Pace) -> None:
        self._client, self._pace = client, pace
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"

    async def begin(self) -> None:
        """The Lease is ours before the first pod is looked at."""
        moment = to_micro_text(now())
        spec = {"holderIdentity": self.identity, "leaseDurationSeconds": DURATION_SECONDS}
        spec |= {"acquireTime": moment, "renewTime": moment}
        try:
            await self._client.create(LEASES, NAMESPACE, {"metadata": {"name": NAME}, "spec": spec})
        except ApiError as error:
            if error.status != 409:
                raise
            await self._client.patch(LEASES, NAMESPACE, NAME, {"spec": spec})

    async def keep(self) -> None:
        """Renews it for ever. Whoever else has taken it keeps it."""
        while True:
            await asyncio.sleep(max(self._pace.seconds(RENEW_SECONDS), 1.0))
            try:
                found = await self._client.get(LEASES, NAMESPACE, NAME)
                if found["spec"].get("holderIdentity") != self.identity:
                    continue
                guard = {"resourceVersion": found["metadata"]["resourceVersion"]}
                body = {"metadata": guard, "spec": {"renewTime": to_micro_text(now())}}
                await self._client.patch(LEASES, NAMESPACE, NAME, body)
            except (ApiError, *QUIET_ERRORS) as error:
                log.info("the scheduler's Lease was not renewed: %s", error)
