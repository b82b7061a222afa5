"""The shape of plans on the wire. No rules, no queries beyond the row's own."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.strict import StrictSerializer
from apps.plans.models import Decision, Plan, PlanVersion
from apps.plans.queries import current_version, execution_state_of, progress_of
from apps.plans.request_rules import GOALS, LEAST_SECONDS, MOST_MOVES, MOST_SECONDS
from apps.plans.searches import search_of
from apps.plans.states import Progress
from apps.plans.waivers import LONGEST_REASON, MOST_WAIVERS


class WaiverWishSerializer(StrictSerializer):
    """A protected pod that may be moved all the same. The console names its UID and what protects it in the
    newest snapshot; the approver signs for exactly those."""

    pod = serializers.RegexField(
        r"^[-.a-zA-Z0-9]+/[-._a-zA-Z0-9]+$", max_length=320, required=False, help_text="namespace/name"
    )
    gang = serializers.RegexField(
        r"^[-.a-zA-Z0-9]+/[-._a-zA-Z0-9@]+$",
        max_length=600,
        required=False,
        help_text="namespace/name of a gang instead of a pod: each of its running pods is named. Pods of "
        "other schedulers are planned and shown only, whoever signs",
    )
    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="why, for the approver and the audit")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("pod" in attrs) == ("gang" in attrs):
            raise serializers.ValidationError("name a pod or a gang, one of them")
        return attrs


def _waivers(**facts: Any) -> serializers.ListField:
    return serializers.ListField(
        child=WaiverWishSerializer(),
        max_length=MOST_WAIVERS,
        required=False,
        help_text="protected pods that may be moved all the same",
        **facts,
    )


class PlanRequestSerializer(StrictSerializer):
    """What to plan. goal: free-nodes, unlock (room for what waits), mig (GPUs cut anew for pods that wait for
    MIG instances) or lower-memory (one workload asks for less GPU memory). workload ("namespace/name") only
    for unlock, where empty takes all that waits, and for lower-memory."""

    cluster = serializers.CharField(min_length=1, max_length=63, trim_whitespace=False)
    goal = serializers.ChoiceField(choices=[str(goal) for goal in GOALS])
    workload = serializers.RegexField(
        r"^([-.a-zA-Z0-9]+/[-._a-zA-Z0-9]+)?$", max_length=320, allow_blank=True, default=""
    )
    max_moves = serializers.IntegerField(
        min_value=1, max_value=MOST_MOVES, required=False, help_text="50 or as many as the policy allows"
    )
    seconds = serializers.FloatField(
        min_value=LEAST_SECONDS,
        max_value=MOST_SECONDS,
        required=False,
        help_text="how long the planner may search; 10 or as many as the policy allows",
    )
    may_preempt = serializers.BooleanField(
        default=False,
        help_text="only for unlock of one workload, and where the policy allows it: less important pods may "
        "lose their place where moves do not suffice",
    )
    waivers = _waivers()


class RevisionSerializer(StrictSerializer):
    """What to change in the request; a new version is computed and every decision is void."""

    max_moves = serializers.IntegerField(min_value=1, max_value=MOST_MOVES, required=False)
    seconds = serializers.FloatField(min_value=LEAST_SECONDS, max_value=MOST_SECONDS, required=False)
    may_preempt = serializers.BooleanField(required=False)
    waivers = _waivers()


class ProposalSerializer(StrictSerializer):
    change_ticket = serializers.CharField(
        max_length=100,
        allow_blank=True,
        default="",
        help_text="in the words of another system; shown at the approval; a policy may require one",
    )


class RejectionSerializer(StrictSerializer):
    digest = serializers.CharField(
        min_length=1,
        max_length=64,
        trim_whitespace=False,
        help_text="sha256 of the version that was looked at",
    )
    comment = serializers.CharField(max_length=2000, allow_blank=True, default="")


class WithdrawalSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=2000, allow_blank=True, default="")


class PlanVersionSerializer(serializers.ModelSerializer):
    """`body` is the plan as the planner words it; `digest` is what an approval binds. ending: what cut the
    search short (limit, stopped), empty where the planner was through."""

    body = serializers.JSONField(
        help_text="cost, of each move and of all: seconds of interrupted work x GPUs, weighted by what runs "
        "there (no money, no plain time: it is for comparing plans); milli is thousandths of a GPU"
    )

    class Meta:
        model = PlanVersion
        fields = [
            "number",
            "snapshot",
            "snapshot_taken_at",
            "digest",
            "created_at",
            "ending",
            "search_seconds",
            "body",
        ]
        read_only_fields = fields


class DecisionSerializer(serializers.ModelSerializer):
    version_number = serializers.IntegerField(source="version.number")
    decided_by = serializers.CharField(source="decided_by.username")

    class Meta:
        model = Decision
        fields = ["version_number", "digest", "verdict", "comment", "decided_by", "decided_at"]
        read_only_fields = fields


class PlanSerializer(serializers.ModelSerializer):
    """execution_state: state of its newest execution, null if none was started. What became of an approved
    plan is told by this alone: its own state stays approved."""

    cluster = serializers.CharField(source="cluster.name")
    request = serializers.JSONField()
    created_by = serializers.CharField(source="created_by.username")
    edited_by = serializers.CharField(source="edited_by.username")
    proposed_by = serializers.CharField(source="proposed_by.username", default=None, allow_null=True)
    execution_state = serializers.SerializerMethodField()

    class Meta:
        model = Plan
        fields = [
            "id",
            "cluster",
            "title",
            "state",
            "state_reason",
            "request",
            "version_number",
            "created_at",
            "created_by",
            "edited_by",
            "proposed_by",
            "proposed_at",
            "change_ticket",
            "expires_at",
            "begun_at",
            "execution_state",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_execution_state(self, plan: Plan) -> str | None:
        return execution_state_of(plan)


class SearchSerializer(serializers.Serializer):
    """How far the planner is. achieved: of the best plan so far, in what its goal counts (freed nodes,
    unlocked GPUs, served compute slices), null while there is none; moves: of that plan; bound: no plan can
    achieve more, null while none is known; gap: (bound - achieved) / max(1, bound)."""

    stage = serializers.CharField(help_text="empty until the planner has told anything")
    achieved = serializers.IntegerField(allow_null=True)
    moves = serializers.IntegerField()
    bound = serializers.IntegerField(allow_null=True)
    gap = serializers.FloatField(allow_null=True)
    sentence = serializers.CharField(help_text="the same in words")
    computing_since = serializers.DateTimeField(allow_null=True, help_text="null until a worker has taken it")
    seconds = serializers.FloatField(help_text="how long it may search")
    stop_asked_at = serializers.DateTimeField(allow_null=True)


class PlanDetailSerializer(PlanSerializer):
    """progress: computing, stopping (the best plan so far was asked for), ready, empty or failed. search: how
    far the planner is, null unless it searches. version: null until it is computed."""

    progress = serializers.SerializerMethodField()
    search = serializers.SerializerMethodField()
    version = serializers.SerializerMethodField()
    decisions = DecisionSerializer(many=True)

    class Meta(PlanSerializer.Meta):
        fields = [*PlanSerializer.Meta.fields, "progress", "search", "version", "decisions"]
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=Progress.values))
    def get_progress(self, plan: Plan) -> str:
        return progress_of(plan, current_version(plan)).value

    @extend_schema_field(SearchSerializer(allow_null=True))
    def get_search(self, plan: Plan) -> dict[str, Any] | None:
        found = search_of(plan)
        return SearchSerializer(found).data if found else None

    @extend_schema_field(PlanVersionSerializer(allow_null=True))
    def get_version(self, plan: Plan) -> dict[str, Any] | None:
        version = current_version(plan)
        return PlanVersionSerializer(version).data if version else None


class ComparisonSerializer(serializers.Serializer):
    """Does the version still fit the newest snapshot? changes: one sentence each, none if it does."""

    changes = serializers.ListField(child=serializers.CharField())
    snapshot_id = serializers.IntegerField(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True)
