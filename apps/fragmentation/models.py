"""One fragmentation report per snapshot: the trend is their row. Fields only."""

from django.db import models

from apps.clusters.models import Cluster


class Report(models.Model):
    """The measure of one snapshot. `snapshot_id` is a number only: bodies are pruned, trends stay.

    It holds from `measured_at` until `seen_until`, when its snapshot was last seen to be true.
    Amounts are in milli-GPU. `body` holds the rest of the report (per node, by cause, free blocks,
    largest gang, per pool and per model) as `planner.fragmentation` words it; the list per node goes
    when the snapshot does.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="reports")
    snapshot_id = models.BigIntegerField()
    measured_at = models.DateTimeField()
    seen_until = models.DateTimeField()
    fragmentation_milli = models.FloatField()
    idle_milli = models.BigIntegerField()
    total_milli = models.BigIntegerField()
    body = models.JSONField(default=dict)

    class Meta:
        ordering = ["-measured_at"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "snapshot_id"], name="one_report_per_snapshot")
        ]
        indexes = [models.Index(fields=["cluster", "-measured_at"])]
