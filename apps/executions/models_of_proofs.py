"""Kept of what a cluster's scheduler obeys: proofs, and rooms that its extender keeps. Fields only."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster
from apps.executions.states import Obedience


class SchedulerProof(models.Model):
    """One try at proving that a cluster's scheduler asks our extender and waits for it.

    `token`: what the pods of the proof carry, once. `resources`: what it was proved for, as the scheduler
    names them. `holder`: holderIdentity of the scheduler's Lease at that time: one that was started again,
    perhaps with another file, has a new one, and the proof is void. `address_number`: of the address that was
    asked. `begun_at`, `tries`: of the worker's last turn. `result`: empty until it has ended. `words`: what
    was seen, in one sentence.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    asked_at = models.DateTimeField()
    token = models.CharField(max_length=32)
    resources = models.JSONField(default=list)
    holder = models.CharField(max_length=300, blank=True)
    address_number = models.PositiveIntegerField(default=0)
    begun_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=12, choices=Obedience.choices, blank=True)
    words = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"], condition=Q(ended_at=None), name="one_open_proof_per_cluster"
            )
        ]


class KeptRoom(models.Model):
    """Room on a target that the cluster's extender keeps for one move's replacement, instead of a paper hold.

    `name`: of the paper hold that it stands for. `body`: that hold's own, as the extender reads it.
    `requests`: what it keeps, in the planner's units. `closed_at`: it is kept no longer.
    """

    execution = models.ForeignKey("executions.Execution", on_delete=models.CASCADE, related_name="kept_rooms")
    move = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    node = models.CharField(max_length=253)
    node_uid = models.CharField(max_length=64)
    owner_uid = models.CharField(max_length=64)
    pod = models.CharField(max_length=320)
    requests = models.JSONField()
    body = models.JSONField()
    made_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["execution", "move"], name="one_room_per_move")]
