"""Kept of a whole cluster: what we hold there, orders to release it, counts of requests. Fields only."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster


class ClusterHoldings(models.Model):
    """What of ours was last found in a cluster.

    `held`: as `holdings.held_to_dict` stores it. `unread`: what the credential may not list, in sentences.
    `tried_at`, `error`: of the last look, which may have failed; what the one before found stays.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    held = models.JSONField(default=list)
    unread = models.JSONField(default=list)
    looked_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)


class ClusterRelease(models.Model):
    """An order to take everything of ours out of a cluster, or to find out what that would be (rehearsal).

    `of_others`, `even_mid_mig`, `of_stopped`: as in `releasing.Wish`. `begun_at`, `tries`: of the worker's
    last turn. `released`: words, in their order. `left`: what and why. `error`: why it ended before its end.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    is_rehearsal = models.BooleanField(default=False)
    of_others = models.BooleanField(default=False)
    even_mid_mig = models.BooleanField(default=False)
    of_stopped = models.BooleanField(default=False)
    begun_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    released = models.JSONField(default=list)
    left = models.JSONField(default=list)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"], condition=Q(ended_at=None), name="one_open_release_per_cluster"
            )
        ]


class ApiRequestCount(models.Model):
    """How many requests executions have sent to a cluster's API server, by method and answer; only grows.

    `status`: HTTP status, 0 where no answer came. The requests themselves (`SentRequest`) go with their
    executions and are cut off; this is what a counter needs.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    method = models.CharField(max_length=8)
    status = models.PositiveIntegerField()
    count = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "method", "status"], name="one_count_per_answer")
        ]
