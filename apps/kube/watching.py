"""Follows one cluster: a watch per kind, and a pulse that proves the cluster is there and the same.

Gives the newest objects and how fresh they are. It translates nothing and stores nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from apps.kube import errors
from apps.kube.gateway import (
    ALL_POD_GROUPS,
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    DRA,
    GPU_REQUESTS,
    JOBS,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NATIVE_WORKLOADS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUE_KINDS,
    QUOTAS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Kind,
)
from apps.kube.kind_watch import KindWatch
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.object_store import KeptObject, ObjectStore

ESSENTIAL = (NODES, PODS)
OPTIONAL = (*ALL_POD_GROUPS, NATIVE_WORKLOADS, *DRA, KOORDINATOR_DEVICES, *QUEUE_KINDS, GPU_REQUESTS)
WATCHED = (
    NODES,
    PODS,
    NAMESPACES,
    REPLICASETS,
    DEPLOYMENTS,
    STATEFULSETS,
    DAEMONSETS,
    JOBS,
    BUDGETS,
    PRIORITY_CLASSES,
    VOLUMES,
    CLAIMS,
    QUOTAS,
    *OPTIONAL,
)


class ClusterWatch:
    """on_change is called from any of its threads, after something changed; it must return at once.

    pulse_seconds: how often the cluster has to prove itself. A picture is never called fresher than
    the last proof. stores: where some kinds' objects are kept, for who wants to hear of each of them.
    """

    def __init__(
        self,
        gateway: KubernetesGateway,
        *,
        on_change: Callable[[], None],
        kinds: tuple[Kind, ...] = WATCHED,
        watch_seconds: int = 270,
        pulse_seconds: float = 5.0,
        retry_seconds: float = 30.0,
        stores: Mapping[Kind, ObjectStore] | None = None,
    ) -> None:
        self._gateway = gateway
        self._on_change = on_change
        self._pulse_seconds = pulse_seconds
        self._stopping = threading.Event()
        self._pulse_thread = threading.Thread(target=self._feel_pulse, name="watch-pulse", daemon=True)
        self._pulse_at: float | None = None
        self.error = ""
        self._watches = [
            KindWatch(
                gateway,
                kind,
                on_change=on_change,
                watch_seconds=watch_seconds,
                retry_seconds=retry_seconds,
                is_optional=kind in OPTIONAL,
                store=(stores or {}).get(kind),
            )
            for kind in kinds
        ]

    def start(self) -> None:
        self._pulse_thread.start()
        for watch in self._watches:
            watch.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End all threads and the gateway."""
        self._stopping.set()
        for watch in self._watches:
            watch.stop()
        self._gateway.close()
        deadline = time.monotonic() + seconds
        for watch in self._watches:
            watch.join(max(deadline - time.monotonic(), 0.05))
        self._pulse_thread.join(max(deadline - time.monotonic(), 0.05))

    @property
    def is_ready(self) -> bool:
        """Whether every kind has answered once, and the essential ones with their objects."""
        return not self.unanswered and not self.missing

    @property
    def missing(self) -> tuple[Kind, ...]:
        """Essential kinds without which there is no picture, and which have not been read."""
        return tuple(watch.kind for watch in self._watches if watch.kind in ESSENTIAL and not watch.is_listed)

    @property
    def unanswered(self) -> tuple[Kind, ...]:
        """Kinds of which nothing is known yet, not even that they cannot be read."""
        return tuple(watch.kind for watch in self._watches if not watch.is_settled)

    def objects(self) -> dict[Kind, list[KeptObject]]:
        """The newest objects; a kind that could not be read is missing."""
        return {watch.kind: watch.objects() for watch in self._watches if watch.is_listed}

    def problems(self) -> tuple[tuple[str, str], ...]:
        """(kind, sentence) for each kind that cannot be read now."""
        return tuple((watch.kind.plural, watch.problem) for watch in self._watches if watch.problem)

    def fresh_at(self) -> float | None:
        """The moment for which the objects stand, in seconds since the epoch; None before the first proof."""
        if self._pulse_at is None:
            return None
        now = time.time()
        pulse = self._pulse_at if self.error or now - self._pulse_at > 3 * self._pulse_seconds else now
        lost = [watch.lost_at for watch in self._watches if watch.is_listed and watch.lost_at is not None]
        return min([pulse, *lost])

    def _feel_pulse(self) -> None:
        while not self._stopping.is_set():
            began = time.time()
            try:
                self._gateway.prove_identity()
            except errors.KubeError as error:
                self._tell(str(error))
                if isinstance(error, errors.AnotherCluster):
                    # Streams that are still open may come from the other one.
                    self._gateway.end_streams()
            except Exception as error:  # without a pulse the picture would age for ever
                self._tell(f"The cluster's identity cannot be read: {type(error).__name__}.")
            else:
                self._pulse_at = began
                self._tell("")
            self._stopping.wait(self._pulse_seconds)

    def _tell(self, error: str) -> None:
        if error != self.error and not self._stopping.is_set():
            self.error = error
            self._on_change()
