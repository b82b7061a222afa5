"""Alerts and how far the audit chain was checked. Fields and constraints only."""

from django.db import models
from django.db.models import Q

from apps.alerts.states import BAD, Kind
from apps.clusters.models import Cluster
from apps.executions.causes import cause_of


class Alert(models.Model):
    """Something that was or is wrong. Open while `cleared_at` is null; then one per cluster, kind, subject.

    `cluster`: null where it is about the console itself. `since`: since when it is so, as far as known;
    `raised_at`, `seen_at`, `cleared_at`: when a look found it first, last, and found it gone.
    """

    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=24, choices=Kind.choices)
    subject = models.CharField(max_length=400)
    what = models.TextField()
    action = models.TextField()
    runbook = models.CharField(max_length=40, blank=True)
    since = models.DateTimeField()
    raised_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "subject"],
                condition=Q(cleared_at=None, cluster__isnull=False),
                name="one_open_alert",
            ),
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=Q(cleared_at=None, cluster=None),
                name="one_open_alert_of_the_console",
            ),
        ]

    @property
    def is_bad(self) -> bool:
        return self.kind in BAD

    @property
    def title(self) -> str:
        """What is wrong, in a few words. What stopped an execution is its cause: a switch, or failures."""
        if self.kind == Kind.PAUSED_BY_SWITCH and self.runbook:
            return cause_of(self.runbook).title
        return self.get_kind_display()


class ChainCheck(models.Model):
    """How far the ledger's chain was checked in this round: a few entries at a time, then from the start.

    `fault`: why it is broken, at `broken_id`; stays until a whole round finds nothing. `looked_at`: when the
    timer's look for trouble last came this far, so beat, broker and a worker were alive.
    """

    last_id = models.BigIntegerField(default=0)
    last_hash = models.CharField(max_length=64, blank=True)
    begun_at = models.DateTimeField()
    fault = models.TextField(blank=True)
    broken_id = models.BigIntegerField(null=True)
    broken_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
