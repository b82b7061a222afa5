"""Turns the ledger's entries into deliveries, and sends what is due, at least once and with back-off.

No network inside a transaction. A receiver that does not answer waits as a whole, so it costs a worker one
time-out and then nothing for a while.
"""

from __future__ import annotations

import json
import random
import time
from collections import deque
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.audit.models import AuditEntry
from apps.clusters.credentials import unseal_text
from apps.clusters.errors import ConnectionFailed
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.states import EVENT_OF, EVENTS
from apps.wire.webhook_post import Answer, WebhookRefused, post, resolve

ENTRIES_A_LOOK = 500
PASS_SECONDS = 20.0
DELIVERIES_A_PASS = 100
LEASE_SECONDS = 60
BACKOFF_SECONDS = (10, 30, 120, 600, 1800, 3600, 7200, 21600)
"""Before the second try, the third, and so on; after the last one a delivery is given up."""
KEPT = timedelta(days=30)


def decide_deliveries() -> None:
    """Entries are numbered in the order in which they are committed: none comes behind the last seen."""
    for pk in Webhook.objects.filter(is_active=True).values_list("pk", flat=True):
        with transaction.atomic():
            found = Webhook.objects.select_for_update(of=("self",), skip_locked=True, no_key=True)
            row = found.select_related("cluster").filter(pk=pk, is_active=True).first()
            if row is not None:
                _decide(row)
    Delivery.objects.filter(created_at__lt=Now() - KEPT, next_try_at=None).delete()


def _decide(row: Webhook) -> None:
    read = AuditEntry.objects.filter(pk__gt=row.last_entry).order_by("pk")
    last = list(read.values_list("pk", flat=True)[:ENTRIES_A_LOOK])
    if not last:
        return
    wanted = [action for event in row.events for action in EVENTS.get(event, ())]
    entries = read.filter(pk__lte=last[-1], action__in=wanted).select_related("actor")
    if row.cluster is not None:
        entries = entries.filter(cluster=row.cluster.name)
    deliveries = [_delivery(row, entry) for entry in entries]
    Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
    Webhook.objects.filter(pk=row.pk).update(last_entry=last[-1])


def _delivery(row: Webhook, entry: AuditEntry) -> Delivery:
    event = EVENT_OF[entry.action]
    found = Delivery(webhook=row, entry=entry.pk, event=event, created_at=Now(), next_try_at=Now())
    told = {
        "id": str(found.key),
        "event": event,
        "action": entry.action,
        "at": entry.at.isoformat(),
        "cluster": entry.cluster,
        "subject": entry.subject,
        "actor": entry.actor.get_username() if entry.actor else None,
        "detail": entry.detail,
    }
    found.body = json.dumps(told, ensure_ascii=False)
    return found


def send_due() -> None:
    """One pass: each receiver's due ones, oldest first, one each in turn, until it gives no answer or the
    time is over. No receiver is always the first: one that is slow would take every pass for its own."""
    limit = time.monotonic() + PASS_SECONDS
    ready = Q(wait_until=None) | Q(wait_until__lte=Now())
    due = Webhook.objects.filter(ready, is_active=True, deliveries__next_try_at__lte=Now()).distinct()
    rows = list(due)
    random.shuffle(rows)
    waiting = {row.pk: _due_of(row) for row in rows}
    while rows:
        for row in list(rows):
            if time.monotonic() > limit:
                return
            if not waiting[row.pk] or not send_one(row, waiting[row.pk].popleft()):
                rows.remove(row)


def _due_of(row: Webhook) -> deque[int]:
    found = row.deliveries.filter(next_try_at__lte=Now()).order_by("pk")
    return deque(found.values_list("pk", flat=True)[:DELIVERIES_A_PASS])


def send_one(row: Webhook, delivery_id: int) -> bool:
    """False if its receiver does not answer, or somebody else is at it."""
    claim = Delivery.objects.filter(pk=delivery_id, next_try_at__lte=Now())
    if not claim.update(next_try_at=Now() + timedelta(seconds=LEASE_SECONDS), tries=F("tries") + 1):
        return False
    delivery = Delivery.objects.get(pk=delivery_id)
    answer = _ask(row, delivery)
    facts = {"status": answer.status, "error": answer.error[:300]}
    if not answer.error:
        claimed = Delivery.objects.filter(pk=delivery_id)
        claimed.update(**facts, delivered_at=Now(), next_try_at=None)
        Webhook.objects.filter(pk=row.pk).update(failures=0, wait_until=None)
        return True
    again = _after(delivery.tries - 1)
    Delivery.objects.filter(pk=delivery_id).update(**facts, next_try_at=Now() + again if again else None)
    if 300 <= answer.status < 500 and answer.status != 429:
        return True  # it is there, and does not want this one
    wait = _after(row.failures) or timedelta(seconds=BACKOFF_SECONDS[-1])
    Webhook.objects.filter(pk=row.pk).update(failures=F("failures") + 1, wait_until=Now() + wait)
    return False


def _after(tries: int) -> timedelta | None:
    return timedelta(seconds=BACKOFF_SECONDS[tries]) if tries < len(BACKOFF_SECONDS) else None


def _ask(row: Webhook, delivery: Delivery) -> Answer:
    try:
        secret = unseal_text(row.secret, what=f"webhook {row.name}")
        target = resolve(row.url, settings.WEBHOOK_ALLOWED)
    except (WebhookRefused, ConnectionFailed) as error:
        return Answer(0, str(error))
    return post(
        target,
        secret=secret,
        body=delivery.body.encode(),
        event=delivery.event,
        key=str(delivery.key),
        seconds=settings.WEBHOOK_SECONDS,
        ca_file=settings.WEBHOOK_CA_FILE,
    )
