"""What forbids effects on a cluster, as the cluster itself tells it. Fields and constraints only; `models`
gives these out as well."""

from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster


class Console(models.Model):
    """One row: which console this is, to others on the same cluster. It goes with the database: all workers
    of one are one console, and a restored backup is the same console at an earlier time."""

    identity = models.CharField(max_length=40)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_console_per_database")]


class ClusterSafety(models.Model):
    """What was last seen, in a cluster itself, that forbids effects there. Times are the database's.

    `switch_since`: the kill switch in the cluster is on, seen first then, for `switch_reason` (the cluster's
    own words). `switch_was_read`: it could be read once, so one that cannot be read now forbids;
    `switch_error` says why it cannot.

    `epoch`: counts the renewals of the cluster's Lease; committed before each is sent, so the cluster never
    has a higher one of ours unless this database is older. `lease_until`: we hold the Lease until then.
    `holder`, `holder_host`: another console that has it, empty for none; its Lease had `holder_version` first
    at `holder_since`, so it runs out `holder_seconds` later; it was looked at last at `holder_looked_at`.
    `lease_error`: why the Lease cannot be kept.

    `safe_since`: this database is older than the cluster (`safe_reason`), so nothing is sent until a person
    leaves safe mode. `safe_found`: what the cluster carries that these rows do not know, in sentences, as
    looked at `safe_looked_at`.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    switch_since = models.DateTimeField(null=True)
    switch_reason = models.TextField(blank=True)
    switch_was_read = models.BooleanField(default=False)
    switch_error = models.TextField(blank=True)
    epoch = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    holder = models.CharField(max_length=100, blank=True)
    holder_host = models.CharField(max_length=100, blank=True)
    holder_version = models.CharField(max_length=64, blank=True)
    holder_since = models.DateTimeField(null=True)
    holder_looked_at = models.DateTimeField(null=True)
    holder_seconds = models.PositiveIntegerField(default=0)
    lease_error = models.TextField(blank=True)
    safe_since = models.DateTimeField(null=True)
    safe_reason = models.TextField(blank=True)
    safe_found = models.JSONField(default=list)
    safe_looked_at = models.DateTimeField(null=True)
