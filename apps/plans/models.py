"""Plans, the decisions made on them, and the policy of each cluster. Fields and constraints only; services
make the changes."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.clusters.models import Cluster, Snapshot
from apps.plans.states import PlanState, SearchEnding


class Plan(models.Model):
    """What the planner proposes for one snapshot, waiting for a person's decision.

    `request`: what was asked ({"goal", "workload", "max_moves", "seconds", "may_preempt"}; older ones lack
    the last). `version_number` is the version that this request asks for: there is no such row while it is
    being computed, an edit asks for the next one, and an approval names one version's digest.
    `computing_until`: lease of the worker that computes it, `computing_since` when it began, both by the
    database's clock. `search`: what the planner last told of its search ({"stage", "achieved", "moves",
    "bound"}), empty before and after. `stop_asked_at`: somebody wants the best plan found so far.
    `change_ticket`: what its proposer named, in the words of another system.
    `begun_at`: when its execution started; from then on the plan neither ages nor changes.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="plans")
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=20, choices=PlanState.choices, default=PlanState.DRAFT)
    request = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    edited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    version_number = models.PositiveIntegerField(default=1)
    computing_until = models.DateTimeField(null=True)
    computing_since = models.DateTimeField(null=True)
    computing_attempts = models.PositiveIntegerField(default=0)
    search = models.JSONField(default=dict)
    stop_asked_at = models.DateTimeField(null=True)
    begun_at = models.DateTimeField(null=True)
    change_ticket = models.CharField(max_length=100, blank=True, default="")
    proposed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    state_reason = models.TextField(blank=True, help_text="why it is stale, expired, rejected or withdrawn")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="a_proposed_plan_expires",
                condition=~Q(state__in=[PlanState.PROPOSED, PlanState.APPROVED])
                | Q(expires_at__isnull=False),
            )
        ]


class PlanVersion(models.Model):
    """One immutable version: `body` is the whole plan as JSON, `digest` its sha256.

    `ending`: what ended the search before the planner was through, empty where it was through.
    `search_seconds`: how long it searched; null where nobody measured.
    """

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.SET_NULL, related_name="+")
    snapshot_taken_at = models.DateTimeField()
    snapshot_digest = models.CharField(max_length=64)
    body = models.JSONField()
    digest = models.CharField(max_length=64)
    ending = models.CharField(max_length=20, choices=SearchEnding.choices, blank=True, default="")
    search_seconds = models.FloatField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["plan", "number"], name="one_version_per_number")]


class Decision(models.Model):
    """One person's word on one version. An approval stands for exactly that digest."""

    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="decisions")
    version = models.ForeignKey(PlanVersion, on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    verdict = models.CharField(max_length=20, choices=[("approved", "approved"), ("rejected", "rejected")])
    comment = models.TextField(blank=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["version"], name="one_decision_per_version")]


class ClusterPolicy(models.Model):
    """What is allowed on one cluster. Without a row nothing is limited.

    `version` counts changes. A limit that is null is none of the cluster's own. `freeze_windows`: as
    `freezes.window_from_dict` reads them, in local times of their zones; `maintenance_windows` the same:
    where there are any, nothing new begins outside them. `disruption_budgets`: as `disruption.limits_from`
    reads them. `stopped_at`: the kill switch is on since then; without `stopped_by` the console threw it
    itself, after failures in a row. `only_offered`: only pods move whose owners say so by annotation.
    `may_preempt`: plans may let pods lose their place to more important ones. `fallback_*`: what has waited
    that long and asks for more GPU memory than that is offered so much less; null is as usual (300 s, 4000
    MiB, 1000 MiB).
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="policy")
    version = models.PositiveIntegerField(default=0)
    protected_namespaces = models.JSONField(default=list)
    max_moves_per_plan = models.PositiveIntegerField(null=True)
    max_seconds_per_plan = models.PositiveIntegerField(null=True)
    may_preempt = models.BooleanField(default=False)
    only_offered = models.BooleanField(default=False)
    requires_ticket = models.BooleanField(default=False)
    max_concurrent_executions = models.PositiveIntegerField(null=True)
    max_evictions_in_flight = models.PositiveIntegerField(null=True)
    max_evictions_per_hour = models.PositiveIntegerField(null=True)
    disruption_budgets = models.JSONField(default=list)
    workload_cool_down_seconds = models.PositiveIntegerField(null=True)
    max_moves_per_workload_per_day = models.PositiveIntegerField(null=True)
    approval_expires_after_seconds = models.PositiveIntegerField(null=True)
    fallback_after_seconds = models.PositiveIntegerField(null=True)
    fallback_above_mib = models.PositiveIntegerField(null=True)
    fallback_step_mib = models.PositiveIntegerField(null=True)
    freeze_windows = models.JSONField(default=list)
    maintenance_windows = models.JSONField(default=list)
    stopped_at = models.DateTimeField(null=True)
    stopped_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    stop_reason = models.CharField(max_length=500, blank=True)
    changed_at = models.DateTimeField(null=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["cluster__name"]
        constraints = [
            models.CheckConstraint(
                name="a_stopped_cluster_says_why",
                condition=Q(stopped_at__isnull=True) | ~Q(stop_reason=""),
            )
        ]
