"""Registered clusters and their snapshots. Fields and constraints only."""

from django.db import models


class Cluster(models.Model):
    """A Kubernetes cluster that the console watches.

    `credential` is encrypted at rest and never leaves the server. `kube_system_uid` pins the
    cluster: another one answering behind the same URL is refused. A cluster known from a dump only has
    neither server nor credential, is never watched, and nothing can be carried out on it.
    `problems`: what the watcher could not read, one {"kind", "message"} each. `is_shadow`: plans are made and
    compared with what happens; none can be started.
    """

    class Source(models.TextChoices):
        API = "api", "its API server"
        DUMP = "dump", "a dump that somebody uploaded"

    name = models.SlugField(max_length=63, unique=True)
    source = models.CharField(max_length=8, choices=Source.choices, default=Source.API)
    server = models.CharField(max_length=300, help_text="https://host:port of its API server")
    ca_certificate = models.TextField(blank=True)
    credential = models.TextField(blank=True)
    kube_system_uid = models.CharField(max_length=64, blank=True)
    version = models.CharField(max_length=40, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    watched_at = models.DateTimeField(null=True, help_text="last time the watcher heard from it")
    watch_error = models.TextField(blank=True)
    problems = models.JSONField(default=list)
    drift_accepted_at = models.DateTimeField(
        null=True, help_text="when a person last said that a node is meant to be as it is now"
    )
    is_shadow = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]

    @property
    def is_live(self) -> bool:
        """Whether there is an API server behind it."""
        return self.source == self.Source.API

    @property
    def why_planned_only(self) -> str:
        """Why no plan for it can be carried out, whoever asks; "" for one that is connected."""
        if self.is_live:
            return ""
        return (
            f"{self.name} is known from a dump only, so nothing can be carried out on it; connect the "
            "cluster itself (page Clusters) and ask for a plan there"
        )


class NodeExpectation(models.Model):
    """What a node has shown before, so that less of it is told. `facts`: a `planner.drift.Expected`.

    Goes with the node's UID: a node that is created anew starts afresh.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="expectations")
    node_uid = models.CharField(max_length=100)
    facts = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "node_uid"], name="one_expectation_per_node")
        ]


class Snapshot(models.Model):
    """One immutable picture, as the planner reads it.

    `body` is the compressed `planner.snapshot.Snapshot`; `summary` holds the few numbers that
    lists and tiles show without opening it.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="snapshots")
    taken_at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    body = models.BinaryField()
    summary = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["cluster", "-id"])]
