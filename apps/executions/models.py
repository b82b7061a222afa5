"""An approved plan being carried out, one step at a time. Fields and constraints only."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster, Snapshot
from apps.executions.gpu_hours.models import GpuHours as GpuHours
from apps.executions.models_of_clusters import ApiRequestCount as ApiRequestCount
from apps.executions.models_of_clusters import ClusterHoldings as ClusterHoldings
from apps.executions.models_of_clusters import ClusterRelease as ClusterRelease
from apps.executions.models_of_proofs import KeptRoom as KeptRoom
from apps.executions.models_of_proofs import SchedulerProof as SchedulerProof
from apps.executions.safety_models import ClusterSafety as ClusterSafety
from apps.executions.safety_models import Console as Console
from apps.executions.states import TERMINAL, ExecutionState, StepKind, StepState
from apps.plans.models import Plan, PlanVersion


class Execution(models.Model):
    """One try at carrying out one approved version.

    `fence` counts claims: a worker whose fence is older than the row's writes nothing.
    `lease_until` is by the database's clock. `visited_at`: last time a runner looked at it.
    `outcome`: what was promised and what was found, written when it closes.
    `is_frozen`: paused by a freeze window, so it goes on by itself. `cause`: code of `causes` for the state
    that it is in, empty where that needs no explanation.
    """

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="executions")
    version = models.ForeignKey(PlanVersion, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=20, choices=ExecutionState.choices, default=ExecutionState.QUEUED)
    state_reason = models.TextField(blank=True)
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    fence = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=120, blank=True)
    visited_at = models.DateTimeField(null=True)
    outcome = models.JSONField(default=dict)
    is_frozen = models.BooleanField(default=False)
    cause = models.CharField(max_length=40, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["plan"],
                condition=~Q(state__in=sorted(TERMINAL)),
                name="one_open_execution_per_plan",
            )
        ]


class Step(models.Model):
    """A unit of crash safety: one effect on one object.

    `target`: what it acts on, told for people ("pod ml/lora-3", "node a100-07"). `params`: what it
    needs (uids, names, requests), fixed at start. `observed`: what was last seen. `move`: the
    plan's move number, 0 for steps of the whole execution. `attempts` counts requests sent.
    """

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="steps")
    position = models.PositiveIntegerField()
    wave = models.PositiveIntegerField(default=0)
    move = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=40, choices=StepKind.choices)
    target = models.CharField(max_length=260)
    params = models.JSONField(default=dict)
    observed = models.JSONField(default=dict)
    state = models.CharField(max_length=20, choices=StepState.choices, default=StepState.PENDING)
    reason = models.TextField(blank=True)
    attempts = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    intent_at = models.DateTimeField(null=True)
    issued_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["execution", "position"], name="one_step_at_a_position")
        ]


class StepEvent(models.Model):
    """What happened to a step or its execution, in order: the live page's event list."""

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="events")
    step = models.ForeignKey(Step, null=True, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField()
    fence = models.BigIntegerField(default=0)
    state = models.CharField(max_length=20)
    message = models.TextField()

    class Meta:
        ordering = ["id"]


class Claim(models.Model):
    """What an open execution has for itself: one active plan per node, pod or workload.

    `subject`: "node:<uid>", "pod:<uid>", "workload:<uid>", prefixed by the cluster's name.
    Deleted when the execution reaches a terminal state.
    """

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="claims")
    subject = models.CharField(max_length=200, unique=True)


class Steering(models.Model):
    """One replacement that the admission webhook is to gate, from its pod's eviction on.

    `name`, `secret`: shared by the moves of one owner, whose webhook configuration has them once.
    `owner_uid`: the controller whose next pods are meant; `pod_name` only where it is known before
    (StatefulSet). `admitted_uid`: the admission request that took it; empty while it is open. Which of its
    owner's rows a pod takes is chance.
    """

    step = models.OneToOneField(Step, on_delete=models.CASCADE, related_name="steering")
    name = models.CharField(max_length=120, db_index=True)
    secret = models.CharField(max_length=64)
    owner_uid = models.CharField(max_length=64, db_index=True)
    pod_name = models.CharField(max_length=253, blank=True)
    admitted_uid = models.CharField(max_length=64, blank=True)
    closed_at = models.DateTimeField(null=True)


class DryRun(models.Model):
    """What the cluster answered when one approved eviction was only asked about (nothing happened), or what
    was found about one node that is to be relaid (then `pod_uid` is the node's and `pod` "node NAME").

    `pod`: "namespace/name". `message`: the server's own words, or the sum over its disruption budget.
    """

    version = models.ForeignKey(PlanVersion, on_delete=models.CASCADE, related_name="+")
    pod_uid = models.CharField(max_length=64)
    pod = models.CharField(max_length=320)
    allowed = models.BooleanField()
    message = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["version", "pod_uid"], name="one_dry_run_per_pod")]


class SentRequest(models.Model):
    """One request of an execution to its cluster: what was asked and answered, no bodies.

    `position`: of the step that it was sent for, null for looks at the whole. `status`: HTTP status, 0 where
    no answer came. `note`: the error in the gateway's words, empty on success.
    """

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="requests")
    at = models.DateTimeField()
    fence = models.BigIntegerField()
    position = models.PositiveIntegerField(null=True)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=500)
    status = models.PositiveIntegerField()
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]


class OwnerNotice(models.Model):
    """What the owner of a moved pod is told, once per move, word and way.

    `way`: "event", on the workload. `word`: announced, moved or stopped. `sent_at`: null until
    it went out; then, or after `attempts` are used up, nothing more is tried. `error`: of the last try.
    """

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="notices")
    move = models.PositiveIntegerField()
    way = models.CharField(max_length=10)
    word = models.CharField(max_length=12)
    name = models.CharField(max_length=120)
    message = models.TextField()
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["execution", "move", "way", "word"], name="one_notice_per_word")
        ]


class ClusterPreflight(models.Model):
    """What was last found about carrying plans out on a cluster.

    `lines`: as `cluster_preflight.lines` stores them. `may_evict`: the credential has all rights that
    carrying plans out takes; null while nobody has looked. `tried_at`, `error`: of the last look, which may
    have failed; the lines of the one before stay.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="preflight")
    lines = models.JSONField(default=list)
    may_evict = models.BooleanField(null=True)
    looked_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)


class Prediction(models.Model):
    """A plan made in shadow, and what became of the cluster without it.

    `body`: the plan. `summary`: its numbers. `moves`: who would have moved where, and whether its eviction
    would have been allowed. `looks`: what was seen 5, 15 and 60 min later. `started`: waiting pods that
    started by themselves. `closed_at`: nothing more is looked at.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="predictions")
    goal = models.CharField(max_length=20)
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField()
    body = models.JSONField()
    summary = models.JSONField(default=dict)
    moves = models.JSONField(default=list)
    looks = models.JSONField(default=list)
    started = models.JSONField(default=list)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["cluster", "-id"])]


class FailureCount(models.Model):
    """Failures on one cluster since the last success, and the executions that they befell, oldest first."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    in_row = models.PositiveIntegerField(default=0)
    executions = models.JSONField(default=list)
