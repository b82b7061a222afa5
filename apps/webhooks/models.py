"""Who is told, and each delivery. Fields and constraints only."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster


class Webhook(models.Model):
    """A receiver. `cluster`: null for all and the console itself. `secret`: sealed, never shown again.

    `last_entry`: number of the last ledger entry that was turned into deliveries or passed over. `failures`,
    `wait_until`: no answer so often in a row, so nothing is sent to it before then.
    """

    name = models.CharField(max_length=60, unique=True)
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    url = models.CharField(max_length=500)
    secret = models.TextField()
    events = models.JSONField(default=list)
    is_active = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    last_entry = models.BigIntegerField()
    failures = models.PositiveIntegerField(default=0)
    wait_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]


class Delivery(models.Model):
    """One event for one receiver. `key`: the id that receivers tell repeats by. `next_try_at`: null once it
    arrived (`delivered_at`) or was given up. `status`: of the last answer, 0 where none came."""

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    entry = models.BigIntegerField()
    event = models.CharField(max_length=40)
    body = models.TextField()
    created_at = models.DateTimeField()
    next_try_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True)
    status = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["webhook", "entry"], name="one_delivery_per_entry")]
        indexes = [
            models.Index(
                fields=["next_try_at"], condition=Q(next_try_at__isnull=False), name="due_deliveries"
            )
        ]
