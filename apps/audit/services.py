"""The only writer of audit entries."""

from __future__ import annotations

from typing import Any

from django.db import connection, models

from apps.audit.chain import START, hash_entry, normalise
from apps.audit.models import AuditEntry

CHAIN_LOCK = 0x61756469742E31
"""Key of the advisory lock that puts writers in a row: a chain has one end."""


def record(
    *,
    actor: Any,
    action: str,
    subject: models.Model | str,
    cluster: str = "",
    detail: dict[str, Any] | None = None,
) -> AuditEntry:
    """Add one entry, inside the transaction that makes the change it speaks of.

    actor: a person, or None for the console itself; one who speaks through an API token is told with the
    token's number and name. cluster: its name. detail: JSON, never a secret.
    From here to the end of the transaction nobody else can write to the ledger, so take row locks
    before and call it last: the other order can deadlock.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("an audit entry must share the transaction of its change")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CHAIN_LOCK])
        cursor.execute("SELECT clock_timestamp()")
        at = cursor.fetchone()[0]
    token = getattr(actor, "token", None)
    by_token = {"by_token": {"id": token.token_id, "name": token.name}} if token else {}
    last = AuditEntry.objects.order_by("-id").values_list("hash", flat=True).first()
    row: dict[str, Any] = {
        "at": at,
        "actor_id": getattr(actor, "pk", None),
        "action": normalise(action),
        "subject": normalise(name_subject(subject)),
        "cluster": normalise(cluster),
        "detail": normalise({**(detail or {}), **by_token}),
        "previous_hash": last or START,
    }
    return AuditEntry.objects.create(**row, hash=hash_entry(**row))


def name_subject(subject: models.Model | str) -> str:
    """How the ledger names a record: "plans.Plan:12"; text stays as it is, cut to 120 characters."""
    if isinstance(subject, models.Model):
        return f"{subject._meta.label}:{subject.pk}"
    return subject[:120]
