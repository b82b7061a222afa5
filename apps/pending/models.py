"""How long pods with devices waited, took to start and ran: one row per pod, and how far that is noted.

Fields only.
"""

from django.db import models

from apps.clusters.models import Cluster


class Stay(models.Model):
    """A pod that asks for devices, from when it was asked for to when it was over.

    `queue`: its tenant, "queue blue" or "namespace ml". `shape`, `kind`: as `planner.run_lengths` words them.
    `placed_at`: when it got its node, null while it waits. `ready_at`: when it was first seen Ready.
    `ended_at`: when it was over, or first missed; `outcome` then says how.
    """

    class Outcome(models.TextChoices):
        OPEN = "", "waits or runs"
        SUCCEEDED = "succeeded", "ran to its end"
        FAILED = "failed", "failed"
        GONE = "gone", "was deleted"

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="stays")
    pod_uid = models.CharField(max_length=100)
    workload = models.CharField(max_length=520)
    kind = models.CharField(max_length=600)
    queue = models.CharField(max_length=320)
    shape = models.CharField(max_length=200)
    image = models.CharField(max_length=300, blank=True)
    node = models.CharField(max_length=253, blank=True)
    asked_at = models.DateTimeField()
    placed_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "pod_uid"], name="one_stay_per_pod")]
        indexes = [
            models.Index(fields=["cluster", "-placed_at"]),
            models.Index(fields=["cluster", "-ended_at"]),
        ]


class Noted(models.Model):
    """How far the stays of a cluster are written: the newest snapshot that was looked through. Whoever writes
    them holds this row."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="stays_noted")
    snapshot_id = models.BigIntegerField(default=0)
