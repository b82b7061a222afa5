"""Keeps what an execution asked its cluster: one row per request, without bodies, for the incident bundle.

Rows are written after each turn, so a killed worker loses those of one turn at most; what was meant to be
sent stands in the ledger before it leaves. Of looks only the first ones are kept, of effects all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar

from django.db import connection

from apps.executions.locks import Lease
from apps.executions.models import SentRequest
from apps.kube.sent import Sent

LOOKS_KEPT = 5000
_position: ContextVar[int | None] = ContextVar("position of the step that is looked at", default=None)


def attribute_to(position: int | None) -> None:
    """From here on requests count as sent for this step; None: for the whole execution."""
    _position.set(position)


class RequestLog:
    def __init__(self, lease: Lease, cluster_id: int) -> None:
        self._lease = lease
        self._cluster_id = cluster_id
        self._counts: Counter[tuple[str, int]] = Counter()
        self._rows: list[SentRequest] = []
        looks = SentRequest.objects.filter(execution_id=lease.execution_id, method="GET")
        self._looks = looks[:LOOKS_KEPT].count()

    def note(self, sent: Sent) -> None:
        """Called by the door after each answer, or none."""
        self._counts[sent.method[:8], sent.status] += 1
        if sent.method == "GET":
            if self._looks >= LOOKS_KEPT:
                return
            self._looks += 1
        self._rows.append(
            SentRequest(
                execution_id=self._lease.execution_id,
                at=sent.at,
                fence=self._lease.fence,
                position=_position.get(),
                method=sent.method,
                path=sent.path[:500],
                status=sent.status,
                note=sent.note[:300],
            )
        )

    def write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            SentRequest.objects.bulk_create(rows, batch_size=500)
        counts, self._counts = self._counts, Counter()
        _count(self._cluster_id, counts)


def _count(cluster_id: int, counts: Mapping[tuple[str, int], int]) -> None:
    """One statement, its rows always in the same order: two executions on a cluster never wait for each other
    in a circle."""
    if not counts:
        return
    rows = [(cluster_id, method, status, count) for (method, status), count in sorted(counts.items())]
    values = ", ".join(["(%s, %s, %s, %s)"] * len(rows))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO executions_apirequestcount AS known (cluster_id, method, status, count) "
            f"VALUES {values} ON CONFLICT (cluster_id, method, status) "
            "DO UPDATE SET count = known.count + EXCLUDED.count",
            [value for row in rows for value in row],
        )
