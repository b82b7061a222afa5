"""What the pages show and cannot read from the newest snapshot at once. Fields only.

A prepared grid can be made anew; since when a MIG change is under way would be lost.
"""

from django.db import models

from apps.clusters.models import Cluster


class GridPicture(models.Model):
    """The newest prepared grid of a cluster, one row each.

    `body` is the gzipped JSON that the browser draws (`reading.compact`), `etag` its digest; `facts` are
    the few numbers and the sentence above it. `snapshot_id` and `report_id` say what it was made of.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="grid_picture")
    snapshot_id = models.BigIntegerField()
    report_id = models.BigIntegerField(null=True)
    prepared_at = models.DateTimeField(auto_now=True)
    etag = models.CharField(max_length=64)
    body = models.BinaryField()
    facts = models.JSONField(default=dict)


class MigChange(models.Model):
    """A MIG change of one node that is under way: since when it has been seen in this very stage.

    mig-manager never says that it gave up, so only time tells a stuck change from a slow one. The row
    goes when the change ends.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="mig_changes")
    node_uid = models.CharField(max_length=64)
    config = models.CharField(max_length=253, blank=True)
    stage = models.CharField(max_length=20)
    since = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "node_uid"], name="one_mig_change_per_node")
        ]
