"""What the pages of a large cluster show, prepared once for everybody. Fields only.

Everything here can be made anew from the newest snapshot and its report; losing it costs a second.
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
