"""The ledger. Rows are added, never changed and never deleted (triggers see to it)."""

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """Who did what to which record, and why.

    `subject` is text ("plans.Plan:12"), so it outlives the record. `hash` covers this row and
    `previous_hash`, so a changed, lost or slipped-in row breaks the chain.
    """

    at = models.DateTimeField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=120, db_index=True)
    cluster = models.CharField(max_length=63, blank=True, db_index=True)
    detail = models.JSONField(default=dict)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["id"]
