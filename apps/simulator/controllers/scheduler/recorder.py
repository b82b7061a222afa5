"""Writes events in the shape of events.k8s.io, as the stock scheduler does. Losing one is no harm."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

from apps.simulator.client import EVENTS, ApiError, KubernetesClient
from apps.simulator.controllers.controller import QUIET_ERRORS
from apps.simulator.controllers.pace import now, to_micro_text

Json = dict[str, Any]
log = logging.getLogger(__name__)

_REMEMBERED = 20_000


class EventRecorder:
    def __init__(self, client: KubernetesClient, controller: str) -> None:
        self._client = client
        self._controller = controller
        self._last: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, pod: Json, kind: str, reason: str, action: str, note: str) -> None:
        """The same words about the same pod are told once."""
        meta = pod["metadata"]
        if self._last.get(meta["uid"]) == reason + note:
            return
        if len(self._last) >= _REMEMBERED:
            self._last.clear()
        self._last[meta["uid"]] = reason + note
        moment = now()
        body = {
            "metadata": {
                "name": f"{meta['name']}.{random.getrandbits(60):x}",
                "namespace": meta["namespace"],
            },
            "eventTime": to_micro_text(moment),
            "reportingController": self._controller,
            "reportingInstance": f"{self._controller}-simulated",
            "action": action,
            "reason": reason,
            "note": note[:1024],
            "type": kind,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta.get("resourceVersion", ""),
            },
        }
        task = asyncio.get_running_loop().create_task(self._write(meta["namespace"], body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, namespace: str, body: Json) -> None:
        try:
            await self._client.create(EVENTS, namespace, body)
        except (ApiError, *QUIET_ERRORS) as error:
            log.debug("event not written: %s", error)
