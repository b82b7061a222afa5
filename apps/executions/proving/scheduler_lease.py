"""The Lease of the cluster's own scheduler: who leads now. Read, never written.

kube-scheduler makes up a new identity at every start and reads its file then alone, so the same holder means
the same file. With `leaderElect: false`, or under another name, there is none to read, and nothing is proved.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from apps.kube.errors import KubeError
from apps.kube.gateway import LEASES, Kind

NAMESPACE, NAME = "kube-system", "kube-scheduler"
LONGEST = 300
LOOK_SECONDS = 1.0
"""How old a look may be that an eviction relies on; the window after it is as long as for any other look."""


class Reader(Protocol):
    def get_object(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None: ...


def read_holder(gateway: Reader) -> str:
    """Its identity, "" where nobody has it or there is no Lease. Raises KubeError."""
    body = gateway.get_object(LEASES, NAME, namespace=NAMESPACE)
    spec = (body or {}).get("spec") or {}
    return str(spec.get("holderIdentity") or "")[:LONGEST]


class SchedulerSight:
    """Who leads, for one visit of a runner; asked once a second at most."""

    def __init__(self, gateway: Reader) -> None:
        self._gateway = gateway
        self._seen: tuple[float, str] | None = None

    def holder(self) -> str:
        """ "" also where it cannot be read: then nothing is relied on."""
        if self._seen is None or time.monotonic() - self._seen[0] > LOOK_SECONDS:
            began = time.monotonic()
            try:
                self._seen = began, read_holder(self._gateway)
            except KubeError:
                self._seen = began, ""
        return self._seen[1]
