"""The shape of executions, their steps and events on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.parameters import LARGEST
from apps.accounts.strict import StrictSerializer
from apps.executions.cause import Way
from apps.executions.gpu_hours.telling import Standing, tell_hours
from apps.executions.models import Execution, Step, StepEvent
from apps.executions.queries import blocked_since
from apps.executions.stops import list_held, list_stops
from apps.executions.ways import ways_on


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
            "cause",
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


class CauseSerializer(serializers.Serializer):
    """code: has a section in docs/runbooks.md. runbook: what to do first."""

    code = serializers.CharField()
    title = serializers.CharField()
    meaning = serializers.CharField()
    runbook = serializers.CharField()


class ToldStopSerializer(serializers.Serializer):
    """step: its position, null for the whole execution. seen: what was observed when it stopped; now and
    seen_at: by the last look since; is_gone: that look saw nothing in the way any more."""

    step = serializers.IntegerField(allow_null=True)
    move = serializers.IntegerField(help_text="the plan's move number, 0 for none")
    kind = serializers.CharField(help_text="of the step, empty for the whole execution")
    target = serializers.CharField()
    cause = CauseSerializer()
    seen = serializers.CharField()
    now = serializers.CharField()
    seen_at = serializers.DateTimeField(allow_null=True)
    is_gone = serializers.BooleanField()
    promised = serializers.CharField()
    runbook = serializers.CharField()
    attempts = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    retry_at = serializers.DateTimeField(allow_null=True)
    needs_person = serializers.BooleanField(help_text="it does not go on by itself")
    ways = serializers.ListField(
        child=serializers.ChoiceField(choices=[str(way) for way in Way]),
        help_text="what may be done now, the usual one first",
    )


class HeldSerializer(serializers.Serializer):
    """By the ledger: what this execution put into the cluster and has not taken back."""

    kind = serializers.ChoiceField(choices=["cordon", "hold", "gate", "taint", "layout"])
    name = serializers.CharField()
    object = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)


class GpuHoursSerializer(serializers.Serializer):
    """Predicted beside measured, from the begin until 24 h after the end. null: not known (`standing` says
    why), or not foreseen by the plan. lost: lost_work since the last checkpoint, lost_away between an
    eviction and a successor that is ready. won: by pods that the plan unlocked, and by others on nodes that
    it freed."""

    standing = serializers.ChoiceField(choices=[str(one) for one in Standing])
    lost_foreseen = serializers.FloatField(allow_null=True)
    won_foreseen = serializers.FloatField(
        allow_null=True, help_text="at most, if all that is unlocked runs for 24 h"
    )
    lost = serializers.FloatField(allow_null=True)
    lost_work = serializers.FloatField(allow_null=True)
    lost_away = serializers.FloatField(allow_null=True)
    won = serializers.FloatField(allow_null=True)
    won_unlocked = serializers.FloatField(allow_null=True)
    won_freed = serializers.FloatField(allow_null=True)
    left = serializers.IntegerField(help_text="pods with GPUs that were evicted")
    without_checkpoint = serializers.IntegerField(help_text="of these; all their running time counts as lost")
    still_away = serializers.IntegerField(help_text="of these; no successor was seen")
    looks = serializers.IntegerField()
    looked_at = serializers.DateTimeField(allow_null=True)
    known_at = serializers.DateTimeField(allow_null=True, help_text="24 h after the end")
    unseen_hours = serializers.FloatField(help_text="of the time so far in which nobody looked")


class GpuHoursTotalSerializer(serializers.Serializer):
    """Over executions that ended in the last `days` and touched something, in GPU-hours."""

    cluster = serializers.CharField()
    days = serializers.IntegerField()
    measured = serializers.IntegerField(help_text="executions that the sums are over")
    pending = serializers.IntegerField(help_text="executions of which it is not yet known")
    unknown = serializers.IntegerField(help_text="executions at which nobody looked")
    lost = serializers.FloatField()
    won = serializers.FloatField()
    lost_foreseen = serializers.FloatField()
    won_foreseen = serializers.FloatField()


class ExecutionDetailSerializer(ExecutionSerializer):
    """ways: what a person with the operator role may do now. gpu_hours: null where nothing was touched."""

    stops = serializers.SerializerMethodField()
    held = serializers.SerializerMethodField()
    ways = serializers.SerializerMethodField()
    gpu_hours = serializers.SerializerMethodField()
    steps = StepSerializer(many=True)
    events = StepEventSerializer(many=True)

    class Meta(ExecutionSerializer.Meta):
        fields = [*ExecutionSerializer.Meta.fields, "stops", "held", "ways", "gpu_hours", "steps", "events"]
        read_only_fields = fields

    @extend_schema_field(ToldStopSerializer(many=True))
    def get_stops(self, execution: Execution) -> list[dict[str, Any]]:
        stops = list_stops(execution, _steps(execution), blocked_since(execution))
        return list(ToldStopSerializer(stops, many=True).data)

    @extend_schema_field(HeldSerializer(many=True))
    def get_held(self, execution: Execution) -> list[dict[str, Any]]:
        return list(HeldSerializer(list_held(execution, _steps(execution)), many=True).data)

    @extend_schema_field(serializers.ListField(child=serializers.ChoiceField(choices=[str(w) for w in Way])))
    def get_ways(self, execution: Execution) -> list[str]:
        return [str(way) for way in ways_on(execution, _steps(execution))]

    @extend_schema_field(GpuHoursSerializer(allow_null=True))
    def get_gpu_hours(self, execution: Execution) -> dict[str, Any] | None:
        told = tell_hours(execution)
        return dict(GpuHoursSerializer(told).data) if told is not None else None


def _steps(execution: Execution) -> list[Step]:
    return list(execution.steps.all())
