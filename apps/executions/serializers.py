"""The shape of executions, their steps and events on the wire."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.parameters import LARGEST
from apps.accounts.strict import StrictSerializer
from apps.executions.models import Execution, Step, StepEvent


class StartSerializer(StrictSerializer):
    plan = serializers.IntegerField(min_value=1, max_value=LARGEST, help_text="id of an approved plan")


class ReasonSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class StepSerializer(serializers.ModelSerializer):
    """move: the plan's move number, 0 for a step of the whole execution."""

    params = serializers.JSONField()
    observed = serializers.JSONField()

    class Meta:
        model = Step
        fields = [
            "position",
            "wave",
            "move",
            "kind",
            "target",
            "state",
            "reason",
            "attempts",
            "retry_at",
            "deadline_at",
            "intent_at",
            "issued_at",
            "finished_at",
            "params",
            "observed",
        ]
        read_only_fields = fields


class StepEventSerializer(serializers.ModelSerializer):
    """step: the step's position, null for what concerns the whole execution."""

    step = serializers.IntegerField(source="step.position", default=None, allow_null=True)

    class Meta:
        model = StepEvent
        fields = ["id", "at", "step", "state", "message"]
        read_only_fields = fields


class ExecutionSerializer(serializers.ModelSerializer):
    cluster = serializers.CharField(source="plan.cluster.name")
    plan_title = serializers.CharField(source="plan.title")
    version_number = serializers.IntegerField(source="version.number")
    digest = serializers.CharField(source="version.digest")
    started_by = serializers.CharField(source="started_by.username")
    outcome = serializers.JSONField()

    class Meta:
        model = Execution
        fields = [
            "id",
            "cluster",
            "plan",
            "plan_title",
            "version_number",
            "digest",
            "state",
            "state_reason",
            "is_frozen",
            "started_by",
            "created_at",
            "started_at",
            "finished_at",
            "deadline_at",
            "visited_at",
            "outcome",
        ]
        read_only_fields = fields


class ExecutionDetailSerializer(ExecutionSerializer):
    steps = StepSerializer(many=True)
    events = StepEventSerializer(many=True)

    class Meta(ExecutionSerializer.Meta):
        fields = [*ExecutionSerializer.Meta.fields, "steps", "events"]
        read_only_fields = fields
