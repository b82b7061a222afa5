"""The shape of fragmentation reports on the wire. Amounts are in milli-GPU (1000 is one device)."""

from __future__ import annotations

from rest_framework import serializers

from apps.fragmentation.models import Report


class ReportSerializer(serializers.ModelSerializer):
    """`ratio`: fragmentation over idle. `report`: by cause, free blocks, largest gang, per node and part."""

    cluster = serializers.CharField(source="cluster.name")
    ratio = serializers.SerializerMethodField()
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
    fragmentation_milli = serializers.FloatField()
    idle_milli = serializers.IntegerField()
    total_milli = serializers.IntegerField()
    ratio = serializers.FloatField()
    by_cause = serializers.DictField(child=serializers.FloatField())
    free_blocks = serializers.DictField(child=serializers.IntegerField())
    free_nodes = serializers.DictField(child=serializers.IntegerField())
    largest_gang = LargestGangSerializer()
    stranded_gpus = serializers.FloatField()
