"""The extender's policy per cluster, its signs of life, and its verdicts. Fields and constraints only."""

from django.conf import settings
from django.db import models

from apps.clusters.models import Cluster
from apps.placing.states import Scoring, Verb, WhenStale


class PlacementPolicy(models.Model):
    """How the extender of one cluster decides. Without a row the defaults hold.

    `version` counts changes. `weight`: what the scheduler multiplies our scores by, beside its own plug-ins.
    `stale_after_seconds`: age of the picture from which `when_stale` holds. `reserved_mib`: of each GPU's
    memory, never given out in shares. `gang_seconds`: how long room is kept for the rest of a gang once its
    first member was let through. `spares_drifted`: GPU pods keep off nodes that show less than they did.
    `is_ignorable`: the scheduler goes on alone where the extender fails. `address_number`: a new one makes a
    new secret in the extender's address.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="placement_policy")
    version = models.PositiveIntegerField(default=0)
    scoring = models.CharField(max_length=20, choices=Scoring.choices, default=Scoring.PACKING)
    weight = models.PositiveIntegerField(default=10)
    when_stale = models.CharField(max_length=20, choices=WhenStale.choices, default=WhenStale.REFUSE)
    stale_after_seconds = models.PositiveIntegerField(default=30)
    is_ignorable = models.BooleanField(default=True)
    binds = models.BooleanField(default=False)
    preempts = models.BooleanField(default=True)
    reserved_mib = models.PositiveIntegerField(default=0)
    gang_seconds = models.PositiveIntegerField(default=30)
    spares_drifted = models.BooleanField(default=True)
    address_number = models.PositiveIntegerField(default=1)
    keeps_rooms = models.BooleanField(default=False)
    changed_at = models.DateTimeField(null=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["cluster__name"]


class ExtenderBeat(models.Model):
    """The last sign of life of a cluster's extender. `picture_age_seconds`: null while it has no picture yet.
    `asked_at`: when a scheduler last asked it about a pod. `policy_version`: the one that it decides by.
    `holds`: how many holds of executions its filter honours, as of `holds_read_at`. `rooms`: ids of the rooms
    that it keeps by then; none where it would let pods pass on an old picture. `proof`: id of the proof whose
    pods it answers as the proof wants it, null for none. `beat_at` is by the database's clock."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="extender_beat")
    beat_at = models.DateTimeField()
    started_at = models.DateTimeField()
    picture_age_seconds = models.FloatField(null=True)
    asked_at = models.DateTimeField(null=True)
    policy_version = models.PositiveIntegerField(default=0)
    holds = models.PositiveIntegerField(default=0)
    holds_read_at = models.DateTimeField(null=True)
    rooms = models.JSONField(default=list)
    proof = models.PositiveBigIntegerField(null=True)


class Verdict(models.Model):
    """One answer of an extender about one pod. `refused`: sentence -> number of nodes. `top`: the best nodes
    first, `{"node", "score", "points", "parts": [{"name", "points", "words"}]}`. `node`: the one that it was
    bound to by us. `note`: what else was decided, such as a picture that is too old."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    verb = models.CharField(max_length=12, choices=Verb.choices)
    at = models.DateTimeField()
    pod_uid = models.CharField(max_length=64)
    pod_key = models.CharField(max_length=320)
    scoring = models.CharField(max_length=20)
    picture_age_seconds = models.FloatField(null=True)
    offered = models.PositiveIntegerField(default=0)
    fitting = models.PositiveIntegerField(default=0)
    refused = models.JSONField(default=dict)
    top = models.JSONField(default=list)
    node = models.CharField(max_length=253, blank=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["cluster", "pod_key", "-id"], name="verdicts_of_pod"),
            models.Index(fields=["cluster", "pod_uid"], name="verdicts_of_pod_uid"),
            models.Index(fields=["cluster", "-id"], name="verdicts_of_cluster"),
        ]
