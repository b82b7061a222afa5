"""One fragmentation report per snapshot, whose row is the trend; and the requests they are measured against.

Fields only.
"""

from django.db import models

from apps.clusters.models import Cluster


class Request(models.Model):
    """A pod that somebody asked for, by its shape as FGD sees it: the requests of the trailing window.

    `asked_at`: when the pod was created, or first seen where nothing tells that. cpu in millicores, milli of
    each GPU, allowed_models as `planner.workload.Spec` has them.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="requests")
    pod_uid = models.CharField(max_length=100)
    asked_at = models.DateTimeField()
    cpu = models.BigIntegerField()
    milli = models.IntegerField()
    gpus = models.IntegerField()
    allowed_models = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "pod_uid"], name="one_request_per_pod")]
        indexes = [models.Index(fields=["cluster", "-asked_at"])]


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
