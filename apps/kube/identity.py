"""Proves that the API server behind a URL still is the cluster that was registered.

The namespace kube-system lives as long as its cluster, so its UID is the cluster's identity.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from apps.kube.errors import AnotherCluster


class Identity:
    """Compares the pinned UID with the one that answers, at most every `seconds`.

    pinned: "" checks nothing (before registration).
    """

    def __init__(self, pinned: str, ask: Callable[[], str], *, seconds: float = 15.0) -> None:
        self._pinned = pinned
        self._ask = ask
        self._seconds = seconds
        self._proved_at: float | None = None

    @property
    def is_pinned(self) -> bool:
        return bool(self._pinned)

    def prove(self, *, now: bool = False) -> None:
        """Raises AnotherCluster on a mismatch, or what asking raises. now: ask even after a recent proof."""
        if not self._pinned:
            return
        recent = self._proved_at is not None and time.monotonic() - self._proved_at < self._seconds
        if recent and not now:
            return
        self._proved_at = None
        found = self._ask()
        if found != self._pinned:
            raise AnotherCluster(
                f"Another cluster answers: its kube-system has the UID {found!r}, registered is "
                f"{self._pinned!r}. Nothing is read from it or sent to it. If the cluster was rebuilt "
                "under its name: register_cluster NAME --kubeconfig FILE --rebuilt."
            )
        self._proved_at = time.monotonic()

    def forget(self) -> None:
        """The connection broke: who answers next has to prove itself again."""
        self._proved_at = None
