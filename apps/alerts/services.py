"""Raises and clears alerts: what is due now and what is open are made equal, as often as anybody asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection, transaction

from apps.alerts.models import Alert, ChainCheck
from apps.alerts.queries import read_facts
from apps.alerts.rules import Due, Limits, due_on_cluster
from apps.alerts.states import Kind
from apps.audit import services as audit
from apps.audit.chain import START
from apps.audit.queries import verify_entries
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.executions.ledger import database_time

LOOK_LOCK = 0x616C65727473
"""Key of the advisory lock that one look has: a second one at that time has nothing to add."""
ENTRIES_A_LOOK = 500
ROUND = timedelta(hours=1)
"""The whole chain is read again this long after the last round began; new entries are read at once."""


def look() -> bool:
    """One look at everything. False if another one is under way."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOOK_LOCK])
            if not cursor.fetchone()[0]:
                return False
        now = database_time()
        _make_equal({_key(place, one): (place, one) for place, one in _everything_due(now)}, now)
    return True


def _everything_due(now: datetime) -> Iterator[tuple[Cluster | None, Due]]:
    for cluster, facts in read_facts():
        for one in due_on_cluster(facts, now, Limits()):
            yield cluster, one
    for one in _check_chain(now):
        yield None, one


def _key(place: Cluster | None, one: Due) -> tuple[int | None, str, str]:
    return (place.pk if place else None, str(one.kind), one.subject[:400])


def _make_equal(due: dict[tuple[int | None, str, str], tuple[Cluster | None, Due]], now: datetime) -> None:
    found = Alert.objects.filter(cleared_at=None).select_related("cluster").defer("cluster__credential")
    rows = {(row.cluster_id, row.kind, row.subject): row for row in found}
    changed: list[tuple[Alert, str]] = []
    for key, row in rows.items():
        if key in due:
            one = due[key][1]
            row.seen_at, row.what, row.action, row.runbook = now, one.what, one.action, one.runbook
            row.save(update_fields=["seen_at", "what", "action", "runbook"])
        else:
            row.cleared_at = now
            row.save(update_fields=["cleared_at"])
            changed.append((row, "alert.cleared"))
    new = {key: found for key, found in due.items() if key not in rows}
    kept = _keep_clusters({place.pk for place, _ in new.values() if place})
    for place, one in new.values():
        if place is None or place.pk in kept:
            changed.append((_create(place, one, now), "alert.raised"))
    for row, action in changed:  # last: from here on nobody else can write to the ledger
        _tell(row, row.cluster, action)


def _keep_clusters(ids: set[int]) -> set[int]:
    """Those that are still there, and stay until the end of the transaction. Locked before the ledger is
    written: whoever removes a cluster locks in that order too."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM clusters_cluster WHERE id = ANY(%s) FOR KEY SHARE", [sorted(ids)])
        return {pk for (pk,) in cursor.fetchall()}


def _create(place: Cluster | None, one: Due, now: datetime) -> Alert:
    return Alert.objects.create(
        cluster=place,
        kind=one.kind,
        subject=one.subject[:400],
        what=one.what,
        action=one.action,
        runbook=one.runbook,
        since=one.since,
        raised_at=now,
        seen_at=now,
    )


def _tell(row: Alert, place: Cluster | None, action: str) -> None:
    where = place.name if place else ""
    detail = {"kind": str(row.kind), "subject": row.subject, "what": row.what}
    audit.record(actor=None, action=action, subject=row, cluster=where, detail=detail)
    if place is not None:
        publish_on_commit(where, "alert", {"id": row.pk, "open": row.cleared_at is None})


def _check_chain(now: datetime) -> Iterator[Due]:
    """A few hundred entries further; hourly from the start again."""
    row = ChainCheck.objects.first() or ChainCheck(begun_at=now, last_hash=START)
    if now - row.begun_at > ROUND:
        row.last_id, row.last_hash, row.begun_at = 0, START, now
    verdict, last_id = verify_entries(row.last_id, row.last_hash, ENTRIES_A_LOOK)
    if not verdict.is_intact:
        row.fault, row.broken_id = verdict.reason, verdict.broken_id
        row.broken_at = row.broken_at or now
    else:
        row.last_id, row.last_hash = last_id, verdict.head
        if verdict.entries < ENTRIES_A_LOOK:
            row.fault, row.broken_id, row.broken_at = "", None, None
    row.looked_at = now
    row.save()
    if row.fault:
        yield Due(
            Kind.AUDIT_BROKEN, "audit chain", f"The ledger is broken at entry {row.broken_id}: {row.fault}.",
            "Run manage.py audit_verify, compare with a backup, find out who has write access to the "
            "database.", row.broken_at or now,
        )  # fmt: skip
