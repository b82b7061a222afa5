"""What a node's kubelet shows its pods of the ConfigMap with the MIG layouts: the text of its last sync.

A kubelet brings a mounted ConfigMap up to date about once a minute; a pod that starts sees the newest.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from apps.simulator.client import CONFIG_MAPS
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import key_of

Json = dict[str, Any]
SYNC_SECONDS = 60.0
_KEPT = 50


class Mounts:
    """name: of the ConfigMap, "namespace/name"."""

    def __init__(self, context: Context, name: str) -> None:
        self._name, self._pace = name, context.pace
        self._seen: list[tuple[float, Json | None]] = []
        context.informers.store(CONFIG_MAPS).subscribe(self._on_change)

    def read(self, node: str, started: float) -> Json | None:
        """The ConfigMap as a pod of the node sees it that started at this time of the loop; None for none."""
        now, period = asyncio.get_running_loop().time(), self._pace.seconds(SYNC_SECONDS)
        offset = period * (zlib.crc32(node.encode()) % 1000) / 1000
        synced = max(now - (now - offset) % period, started)
        shown = [held for at, held in self._seen if at <= synced] or [held for _, held in self._seen[:1]]
        return shown[-1] if shown else None

    def _on_change(self, change: Change) -> None:
        if key_of(change.object) != self._name:
            return
        held = None if change.kind == "DELETED" else change.object
        at = asyncio.get_running_loop().time()
        self._seen = [*self._seen[-_KEPT:], (at, held)]
