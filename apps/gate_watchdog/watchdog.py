"""Looks every few seconds and frees what nobody is there for. Keeps only since when it has seen each gate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from apps.gate_watchdog import stale
from apps.gate_watchdog.api_server import ApiError, ApiServer

log = logging.getLogger(__name__)


@dataclass
class Watchdog:
    """after: seconds that it lets a pod wait behind our gate, by its own observation (a pod's time of
    creation is another clock's). every: between two looks. grace: seconds past a deadline, for clocks that
    differ."""

    api: ApiServer
    after: float = 110.0
    every: float = 5.0
    grace: float = 300.0
    namespace: str = "gpu-defrag"
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, float] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.look()
            stop.wait(self.every)

    def look(self) -> int:
        """One look at everything. Returns how many requests changed something; what fails is tried again."""
        over = datetime.now(UTC) - timedelta(seconds=self.grace)
        steerings = f"/apis/defrag.gpu.internal/v1alpha1/namespaces/{self.namespace}/steerings"
        holds = f"/api/v1/namespaces/{self.namespace}/pods"
        list_objects = self.api.list_objects
        looks: tuple[Callable[[], list[stale.Request]], ...] = (
            self._free_gated,
            lambda: list(stale.delete_steerings(list_objects(steerings), steerings, over)),
            lambda: list(stale.delete_steerings(list_objects(stale.HOOKS, stale.OWNED), stale.HOOKS, over)),
            lambda: list(stale.delete_holds(list_objects(holds, stale.HOLD), over)),
            lambda: list(stale.release_nodes(list_objects("/api/v1/nodes"), over)),
        )
        return sum(self._send_all(one) for one in looks)

    def _free_gated(self) -> list[stale.Request]:
        # A gated pod is on no node: of a large cluster the few that wait are read, not all.
        waiting = self.api.list_objects("/api/v1/pods", fields="spec.nodeName=")
        gated = {pod["metadata"]["uid"]: pod for pod in waiting if stale.is_gated(pod)}
        now = self.clock()
        self._seen = {uid: self._seen.get(uid, now) for uid in gated}
        return [stale.ungate(pod) for uid, pod in gated.items() if now - self._seen[uid] >= self.after]

    def _send_all(self, find: Callable[[], list[stale.Request]]) -> int:
        """One fault hides nothing of the rest."""
        done = 0
        try:
            requests = find()
        except ApiError as error:
            log.warning("%s", error)
            return 0
        for one in requests:
            try:
                self.api.ask(one.method, one.path, one.body, one.content)
            except ApiError as error:
                log.warning("%s: %s", one.why, error)
            else:
                log.info("%s", one.why)
                done += 1
        return done
