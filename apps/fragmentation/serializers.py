"""The shape of fragmentation reports on the wire. Amounts are in milli-GPU (1000 is one device)."""

from __future__ import annotations

from rest_framework import serializers

from apps.fragmentation.models import Report


class ReportSerializer(serializers.ModelSerializer):
    """`ratio`: fragmentation over idle. `report`: by cause, per node, free blocks, largest gang."""

    cluster = serializers.CharField(source="cluster.name")
    ratio = serializers.SerializerMethodField()
    report = serializers.JSONField(source="body")

    class Meta:
        model = Report
        fields = [
            "cluster",
            "snapshot_id",
            "measured_at",
            "fragmentation_milli",
            "idle_milli",
            "total_milli",
            "ratio",
            "report",
        ]
        read_only_fields = fields

    def get_ratio(self, report: Report) -> float:
        return report.fragmentation_milli / report.idle_milli if report.idle_milli else 0.0


class TrendPointSerializer(ReportSerializer):
    """One point of the trend: the amounts without the details."""

    class Meta(ReportSerializer.Meta):
        fields = [name for name in ReportSerializer.Meta.fields if name not in ("cluster", "report")]
        read_only_fields = fields
