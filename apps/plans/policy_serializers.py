"""The shape of policies on the wire. What may stand in one is `policy_rules`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.strict import StrictSerializer
from apps.clusters.models import Cluster
from apps.plans.disruption import COUNTS, SCOPES, UNAVAILABLE
from apps.plans.freezes import DAYS, tell_window
from apps.plans.models import ClusterPolicy
from apps.plans.policies import FREEZE, KILL_SWITCH, OUTSIDE, ban_of, next_freeze
from apps.plans.policy_rules import (
    CLOCK,
    LIMITS,
    LONGEST_REASON,
    MOST_AWAY,
    MOST_BUDGETS,
    MOST_PATTERNS,
    MOST_WINDOWS,
    PATTERN,
    PLACE,
)
from apps.plans.services.governing import LONGEST_STOP_REASON


class FreezeWindowSerializer(StrictSerializer):
    """Either weekdays (every week, from start to end; on the next day if end is not later than start) or
    first_day and last_day (once, from start on the first to end on the last). Times are local to time_zone,
    summer and winter; end may be 24:00."""

    weekdays = serializers.ListField(
        child=serializers.ChoiceField(choices=list(DAYS)), min_length=1, max_length=7, required=False
    )
    first_day = serializers.DateField(required=False)
    last_day = serializers.DateField(required=False)
    start = serializers.RegexField(f"^{CLOCK.pattern}$", help_text="18:00")
    end = serializers.RegexField(f"^{CLOCK.pattern}$", help_text="08:00")
    time_zone = serializers.CharField(max_length=60, help_text="a name of the IANA database: Europe/Berlin")
    reason = serializers.CharField(max_length=LONGEST_REASON)

    def validate(self, told: dict[str, Any]) -> dict[str, Any]:
        days: dict[str, Any] = {name: str(told[name]) for name in ("first_day", "last_day") if name in told}
        return {**told, **days}


class DisruptionBudgetSerializer(StrictSerializer):
    """How many pods may be out of service at once in each place of a scope that the name (or glob) speaks of.
    counts: unavailable takes in pods that are away for other reasons than ours."""

    scope = serializers.ChoiceField(choices=list(SCOPES))
    name = serializers.RegexField(
        f"^{PLACE.pattern}$", max_length=507, default="*", help_text="a workload is namespace/name"
    )
    at_most = serializers.IntegerField(min_value=1, max_value=MOST_AWAY)
    counts = serializers.ChoiceField(choices=list(COUNTS), default=UNAVAILABLE)


def _limit(name: str, words: str) -> serializers.IntegerField:
    low, high = LIMITS[name]
    words = f"{words}; null: no limit of the cluster's own"
    return serializers.IntegerField(
        min_value=low, max_value=high, allow_null=True, default=None, help_text=words
    )


class PolicyWishesSerializer(StrictSerializer):
    """What can be edited. PUT replaces all of it, PATCH what is named."""

    protected_namespaces = serializers.ListField(
        child=serializers.RegexField(f"^{PATTERN.pattern}$", max_length=63),
        max_length=MOST_PATTERNS,
        default=list,
        help_text="names or globs (prod-*): pods there are never moved",
    )
    max_moves_per_plan = _limit("max_moves_per_plan", "moves that a plan may ask for")
    max_seconds_per_plan = _limit("max_seconds_per_plan", "seconds that the planner may search for a plan")
    may_preempt = serializers.BooleanField(
        default=False, help_text="whether a plan may let pods lose their place to more important ones"
    )
    only_offered = serializers.BooleanField(
        default=False,
        help_text="opt-in: only pods move that say defrag.gpu.internal/movable: true, or whose namespace "
        "does",
    )
    requires_ticket = serializers.BooleanField(
        default=False, help_text="whether a plan can be proposed only with a change ticket"
    )
    max_concurrent_executions = _limit("max_concurrent_executions", "executions under way at once")
    max_evictions_in_flight = _limit(
        "max_evictions_in_flight", "pods evicted and not yet landed, of all executions together"
    )
    max_evictions_per_hour = _limit("max_evictions_per_hour", "evictions sent within any hour")
    disruption_budgets = serializers.ListField(
        child=DisruptionBudgetSerializer(), max_length=MOST_BUDGETS, default=list
    )
    workload_cool_down_seconds = _limit(
        "workload_cool_down_seconds", "how long a workload rests after one of its pods was moved"
    )
    max_moves_per_workload_per_day = _limit(
        "max_moves_per_workload_per_day", "moves of one workload's pods within a day"
    )
    approval_expires_after_seconds = _limit("approval_expires_after_seconds", "how long an approval holds")
    fallback_after_seconds = _limit(
        "fallback_after_seconds",
        "how long a pod must have waited before less GPU memory is offered; null: 300",
    )
    fallback_above_mib = _limit("fallback_above_mib", "how much it must ask for more than; null: 4000")
    fallback_step_mib = _limit("fallback_step_mib", "how much less is offered at a time; null: 1000")
    freeze_windows = serializers.ListField(
        child=FreezeWindowSerializer(), max_length=MOST_WINDOWS, default=list
    )
    maintenance_windows = serializers.ListField(
        child=FreezeWindowSerializer(),
        max_length=MOST_WINDOWS,
        default=list,
        help_text="where there are any, nothing new begins outside them; told as freeze windows are",
    )


class StopSerializer(StrictSerializer):
    reason = serializers.RegexField(r"\S", max_length=LONGEST_STOP_REASON, help_text="why everything stops")


class ReleaseSerializer(StrictSerializer):
    reason = serializers.RegexField(r"\S", max_length=LONGEST_STOP_REASON, help_text="why it is safe again")


class KillSwitchSerializer(serializers.Serializer):
    is_on = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)
    stopped_by = serializers.CharField(allow_null=True)
    stopped_at = serializers.DateTimeField(allow_null=True)


class BanSerializer(serializers.Serializer):
    """Why nothing new may be started now. until: null where a person ends it."""

    kind = serializers.ChoiceField(choices=[FREEZE, OUTSIDE, KILL_SWITCH])
    sentence = serializers.CharField()
    until = serializers.DateTimeField(allow_null=True)


class NextFreezeSerializer(serializers.Serializer):
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    window = serializers.CharField(help_text="in local time")
    reason = serializers.CharField()


class PolicySerializer(serializers.Serializer):
    """The policy of one cluster. version: 0 where nobody has set any. ban: null where new effects are
    allowed now. next_freeze: the window that begins next."""

    cluster = serializers.CharField(source="cluster.name")
    version = serializers.IntegerField()
    protected_namespaces = serializers.ListField(child=serializers.CharField())
    max_moves_per_plan = serializers.IntegerField(allow_null=True)
    max_seconds_per_plan = serializers.IntegerField(allow_null=True)
    may_preempt = serializers.BooleanField()
    only_offered = serializers.BooleanField()
    requires_ticket = serializers.BooleanField()
    max_concurrent_executions = serializers.IntegerField(allow_null=True)
    max_evictions_in_flight = serializers.IntegerField(allow_null=True)
    max_evictions_per_hour = serializers.IntegerField(allow_null=True)
    disruption_budgets = DisruptionBudgetSerializer(many=True)
    workload_cool_down_seconds = serializers.IntegerField(allow_null=True)
    max_moves_per_workload_per_day = serializers.IntegerField(allow_null=True)
    approval_expires_after_seconds = serializers.IntegerField(allow_null=True)
    fallback_after_seconds = serializers.IntegerField(allow_null=True)
    fallback_above_mib = serializers.IntegerField(allow_null=True)
    fallback_step_mib = serializers.IntegerField(allow_null=True)
    freeze_windows = FreezeWindowSerializer(many=True)
    maintenance_windows = FreezeWindowSerializer(many=True)
    kill_switch = serializers.SerializerMethodField()
    ban = serializers.SerializerMethodField()
    next_freeze = serializers.SerializerMethodField()
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(source="changed_by.username", default=None, allow_null=True)

    @extend_schema_field(KillSwitchSerializer)
    def get_kill_switch(self, policy: ClusterPolicy) -> dict[str, Any]:
        by = policy.stopped_by
        told = {
            "is_on": policy.stopped_at is not None,
            "reason": policy.stop_reason,
            "stopped_by": by.get_username() if by is not None else None,
            "stopped_at": policy.stopped_at,
        }
        return KillSwitchSerializer(told).data

    @extend_schema_field(BanSerializer(allow_null=True))
    def get_ban(self, policy: ClusterPolicy) -> dict[str, Any] | None:
        ban = ban_of(policy, timezone.now())
        return BanSerializer(ban).data if ban is not None else None

    @extend_schema_field(NextFreezeSerializer(allow_null=True))
    def get_next_freeze(self, policy: ClusterPolicy) -> dict[str, Any] | None:
        found = next_freeze(policy, timezone.now())
        if found is None:
            return None
        (begins_at, ends_at), window = found
        told = {"begins_at": begins_at, "ends_at": ends_at, "reason": window.reason}
        return NextFreezeSerializer({**told, "window": tell_window(window)}).data


def policy_among(cluster: Cluster) -> ClusterPolicy:
    """Of a cluster that was read together with its policy."""
    return getattr(cluster, "policy", None) or ClusterPolicy(cluster=cluster)
