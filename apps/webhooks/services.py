"""Receivers are added, switched and removed by admins: each change a transaction with its audit entry."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Max
from django.db.models.functions import Now

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.audit.models import AuditEntry
from apps.clusters.credentials import seal_text
from apps.clusters.models import Cluster
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.states import EVENTS
from apps.wire.webhook_post import WebhookRefused, resolve


@denials_recorded()
def add_webhook(
    *, actor: Any, name: str, url: str, events: list[str], cluster: Cluster | None
) -> tuple[Webhook, str]:
    """The receiver and its secret, which is told this once. It hears of what happens from now on.

    Raises Denied, and WebhookRefused for an address, name or event that cannot be used."""
    authorize(actor, Action.ADMINISTER, cluster, subject="webhooks")
    _check(name, url, events)
    secret = secrets.token_urlsafe(32)
    facts = {
        "name": name.strip(),
        "cluster": cluster,
        "url": url,
        "events": events,
        "secret": seal_text(secret),
    }
    try:
        with transaction.atomic(durable=True):
            last = AuditEntry.objects.aggregate(last=Max("pk"))["last"] or 0
            row = Webhook.objects.create(**facts, created_by=actor, created_at=Now(), last_entry=last)
            detail = {"name": row.name, "events": events}
            _record(actor, "webhook.added", row, detail)
    except IntegrityError as error:
        raise WebhookRefused(f"a webhook named {name.strip()} exists: choose another name") from error
    return Webhook.objects.select_related("cluster").get(pk=row.pk), secret


def _check(name: str, url: str, events: list[str]) -> None:
    if not name.strip() or len(name.strip()) > 60:
        raise WebhookRefused("a webhook needs a name of at most 60 characters")
    if not events or not set(events) <= set(EVENTS):
        raise WebhookRefused(f"choose at least one of the events {', '.join(EVENTS)}")
    if len(url) > 500:
        raise WebhookRefused("the address has over 500 characters")
    resolve(url, settings.WEBHOOK_ALLOWED)


@denials_recorded()
@transaction.atomic(durable=True)
def switch_webhook(*, actor: Any, webhook: Webhook, is_active: bool) -> None:
    """Off: nothing is decided or sent. On again: it hears of what happens from then on."""
    authorize(actor, Action.ADMINISTER, webhook.cluster, subject=webhook)
    facts: dict[str, Any] = {"is_active": is_active, "failures": 0, "wait_until": None}
    if is_active and not webhook.is_active:
        facts["last_entry"] = AuditEntry.objects.aggregate(last=Max("pk"))["last"] or 0
    Webhook.objects.filter(pk=webhook.pk).update(**facts)
    _record(actor, "webhook.switched_on" if is_active else "webhook.switched_off", webhook, {})


@denials_recorded()
@transaction.atomic(durable=True)
def remove_webhook(*, actor: Any, webhook: Webhook) -> None:
    """With its deliveries."""
    authorize(actor, Action.ADMINISTER, webhook.cluster, subject=webhook)
    _record(actor, "webhook.removed", webhook, {"name": webhook.name})
    webhook.delete()


@denials_recorded()
@transaction.atomic(durable=True)
def send_again(*, actor: Any, delivery: Delivery) -> None:
    """Under the same id; the tries are counted anew."""
    authorize(actor, Action.ADMINISTER, delivery.webhook.cluster, subject=delivery.webhook)
    Delivery.objects.filter(pk=delivery.pk).update(next_try_at=Now(), tries=0, delivered_at=None, error="")
    Webhook.objects.filter(pk=delivery.webhook_id).update(wait_until=None, failures=0)
    _record(actor, "webhook.sent_again", delivery.webhook, {"delivery": str(delivery.key)})


def _record(actor: Any, action: str, row: Webhook, detail: dict[str, Any]) -> None:
    where = row.cluster.name if row.cluster else ""
    audit.record(actor=actor, action=action, subject=row, cluster=where, detail=detail)
