"""Every read of the ledger, and the check that nobody touched it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.db import models

from apps.audit.chain import START, hash_entry
from apps.audit.models import AuditEntry


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """entries: how many were read up to and with the first broken one. head: hash of the last good entry:
    keep it outside, because only that shows a ledger whose newest rows were cut off.
    """

    is_intact: bool
    entries: int
    head: str
    broken_id: int | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def verify_chain(*, known_head: str = "") -> ChainVerdict:
    """Recompute every hash in order. known_head: a hash seen earlier that must still be in the chain."""
    previous, count, is_head_met = START, 0, not known_head
    for entry in AuditEntry.objects.order_by("id").iterator(chunk_size=2000):
        count += 1
        reason = _fault(entry, previous)
        if reason:
            return ChainVerdict(False, count, previous, entry.pk, reason)
        previous = entry.hash
        is_head_met = is_head_met or previous == known_head
    if not is_head_met:
        reason = f"no entry has the hash {known_head}: the newest entries were cut off, or all was rewritten"
        return ChainVerdict(False, count, previous, None, reason)
    return ChainVerdict(True, count, previous)


def verify_entries(after_id: int, previous: str, most: int) -> tuple[ChainVerdict, int]:
    """At most so many entries behind one that was checked before, whose hash is `previous` (START for none).

    The second value: id of the last good entry. For a check in small parts; `verify_chain` is the whole.
    """
    count, last_id = 0, after_id
    for entry in AuditEntry.objects.filter(pk__gt=after_id).order_by("id")[:most]:
        count += 1
        if reason := _fault(entry, previous):
            return ChainVerdict(False, count, previous, entry.pk, reason), last_id
        previous, last_id = entry.hash, entry.pk
    return ChainVerdict(True, count, previous), last_id


def entries_visible(cluster_names: set[str] | None) -> models.QuerySet[AuditEntry]:
    """Newest first: the entries of these clusters; None takes all, those without a cluster included."""
    found = AuditEntry.objects.select_related("actor").order_by("-id")
    return found if cluster_names is None else found.filter(cluster__in=cluster_names)


def _fault(entry: AuditEntry, previous: str) -> str:
    if entry.previous_hash != previous:
        return "it does not follow the entry before it: one was removed, added or changed there"
    expected = hash_entry(
        at=entry.at,
        actor_id=entry.actor_id,
        action=entry.action,
        subject=entry.subject,
        cluster=entry.cluster,
        detail=entry.detail,
        previous_hash=entry.previous_hash,
    )
    return "" if entry.hash == expected else "its content is not what was hashed when it was written"
