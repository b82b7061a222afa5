"""Where a cluster's telemetry comes from, what was read last, and the last hour by minutes. Fields only."""

from django.db import models

from apps.clusters.models import Cluster


class Source(models.Model):
    """The Prometheus of a cluster. `credential`: its token, encrypted at rest, never told.

    read_at: when it was last read. error, failed_at: why it could not be read since, and when that was
    found; "" while it can. warnings: what was refused of the last reading. claimed_until: somebody reads now.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="telemetry_source")
    address = models.CharField(max_length=300)
    ca_certificate = models.TextField(blank=True)
    credential = models.TextField(blank=True)
    read_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    failed_at = models.DateTimeField(null=True)
    warnings = models.JSONField(default=list)
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["cluster_id"]


class Reading(models.Model):
    """All devices of a cluster as they were read last; `body` is packed (`telemetry.packing`).

    low_use: `advice.LowUse` as plain values, worked out where the readings are read, at low_use_at: to go
    through all devices takes too long for a page.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="telemetry")
    taken_at = models.DateTimeField()
    body = models.BinaryField()
    low_use = models.JSONField(null=True)
    low_use_at = models.DateTimeField(null=True)


class Minute(models.Model):
    """How busy every unit was within one minute: `body` is packed sums and counts. Few are kept."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="telemetry_minutes")
    minute = models.DateTimeField()
    body = models.BinaryField()

    class Meta:
        ordering = ["minute"]
        constraints = [models.UniqueConstraint(fields=["cluster", "minute"], name="one_row_per_minute")]
