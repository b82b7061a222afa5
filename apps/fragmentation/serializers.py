"""The shape of fragmentation reports on the wire. Amounts are in milli-GPU (1000 is one device)."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.fragmentation.models import Report


class MilliField(serializers.FloatField):
    """Thousandths of a GPU. An expected value over what is wanted, so it has a fraction; three digits of it
    are told, since more would be noise."""

    def to_representation(self, value: float) -> Any:
        return round(float(super().to_representation(value)), 3)


LOST = "milli-GPU (1000 is one device) that are idle and of no use to what is wanted: an expected value"


class ReportSerializer(serializers.ModelSerializer):
    """`ratio`: fragmentation over idle. `report`: by cause, free blocks, largest gang, per node and part; its
    amounts are in milli-GPU too, unless a name says `gpus` or `nodes`."""

    cluster = serializers.CharField(source="cluster.name")
    fragmentation_milli = MilliField(help_text=LOST)
    ratio = serializers.SerializerMethodField(help_text="0 to 1")
    report = serializers.JSONField(source="body")

    class Meta:
        model = Report
        fields = [
            "cluster",
            "snapshot_id",
            "measured_at",
            "seen_until",
            "fragmentation_milli",
            "idle_milli",
            "total_milli",
            "ratio",
            "report",
        ]
        read_only_fields = fields

    def get_ratio(self, report: Report) -> float:
        return report.fragmentation_milli / report.idle_milli if report.idle_milli else 0.0


class LargestGangSerializer(serializers.Serializer):
    """How many pods of so many linked GPUs could start together."""

    gpus_per_pod = serializers.IntegerField()
    link = serializers.CharField()
    pods = serializers.IntegerField()


class TrendPointSerializer(serializers.Serializer):
    """One point of the trend, for all nodes or for the pool and model asked for.

    It holds until `seen_until`. `after_gap`: nobody saw the cluster between the point before and this one.
    """

    snapshot_id = serializers.IntegerField()
    measured_at = serializers.DateTimeField()
    seen_until = serializers.DateTimeField()
    after_gap = serializers.BooleanField()
    fragmentation_milli = MilliField(help_text=LOST)
    idle_milli = serializers.IntegerField()
    total_milli = serializers.IntegerField()
    ratio = serializers.FloatField(help_text="fragmentation over idle, 0 to 1")
    by_cause = serializers.DictField(child=MilliField(), help_text="milli-GPU; together they are idle_milli")
    free_blocks = serializers.DictField(child=serializers.IntegerField())
    free_nodes = serializers.DictField(child=serializers.IntegerField())
    largest_gang = LargestGangSerializer()
    stranded_gpus = serializers.FloatField()
