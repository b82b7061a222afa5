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


class ShareSerializer(serializers.Serializer):
    """A size of share that pods ask for: of how many GPUs, how much of each, and how many such shares fit."""

    resource = serializers.CharField()
    gpus = serializers.IntegerField()
    milli = serializers.IntegerField(help_text="of the cores of each GPU; 1 where memory alone is asked")
    memory_mib = serializers.IntegerField(allow_null=True, help_text="null: as much as of the cores")
    wanted = serializers.IntegerField(help_text="pods that ask for it")
    fit = serializers.IntegerField(help_text="how many fit, were no others to come")


class GpuMemorySerializer(serializers.Serializer):
    """GPU memory that is left, in MiB."""

    whole_mib = serializers.IntegerField(help_text="on wholly free GPUs")
    shared_mib = serializers.IntegerField(help_text="on partly taken GPUs")
    crumbs_mib = serializers.IntegerField(help_text="of shared_mib, what is less than any wanted share")
    unknown_gpus = serializers.IntegerField(help_text="GPUs whose memory nobody tells")
    shares = ShareSerializer(many=True)


class MigRoomSerializer(serializers.Serializer):
    """Of GPUs that MIG has cut, as they are cut now. Memory slices and start slices are keys."""

    memory_slices = serializers.IntegerField()
    uncut_memory_slices = serializers.IntegerField()
    uncut_by_start = serializers.DictField(child=serializers.IntegerField())
    more_fit = serializers.DictField(child=serializers.IntegerField(), help_text="by profile")
    more_fit_by_start = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()))


class StartableSerializer(serializers.Serializer):
    """A shape that waits. `workload` is the first in the queue that asks for it."""

    workload = serializers.CharField()
    gpus_per_pod = serializers.IntegerField()
    milli = serializers.IntegerField(help_text="of each GPU")
    memory_mib = serializers.IntegerField(allow_null=True)
    link = serializers.CharField(allow_blank=True)
    profiles = serializers.DictField(child=serializers.IntegerField(), help_text="MIG instances asked for")
    waiting_pods = serializers.IntegerField(help_text="pods")
    startable_pods = serializers.IntegerField(help_text="how many could start now, were no others to come")
    nodes = serializers.IntegerField(help_text="on so many nodes")
    at_most = serializers.BooleanField(help_text="rules between pods may leave fewer")


class WantedSerializer(serializers.Serializer):
    """What is wanted: `window`, the requests of the trailing window and what is pending, or `running`, what
    runs, where nobody asked for a GPU lately, or `dump`, what runs and waits in one."""

    basis = serializers.CharField()
    window_hours = serializers.FloatField()
    requests = serializers.IntegerField(help_text="pods asked for in the window")
    pending_longer = serializers.IntegerField(help_text="pods that have been waiting for longer than that")
    shapes = serializers.IntegerField(help_text="the most popular, which cover 95 % of the pods")


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
    link_groups = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        help_text="link class -> N -> groups of N free GPUs, each pair tied so or better, that fit at once",
    )
    links_unknown_nodes = serializers.IntegerField(help_text="nodes with free GPUs whose links nobody tells")
    gpu_memory = GpuMemorySerializer(
        allow_null=True, help_text="null where the report is older than this measure"
    )
    mig = MigRoomSerializer(allow_null=True, help_text="null where no GPU is cut")
    startable = StartableSerializer(many=True, help_text="of all nodes only")
    wanted = WantedSerializer(allow_null=True, help_text="of all nodes only")
