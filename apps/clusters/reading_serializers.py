"""The shape of what was measured of a device on the wire. Who measures is a later stage's."""

from __future__ import annotations

from rest_framework import serializers


class UnitReadingSerializer(serializers.Serializer):
    """A GPU, or one MIG instance of it, as it was measured last. Null is "not measured": neither zero nor
    idle; not_measured says why, by field. Power, temperature and XID are those of the whole GPU."""

    instance = serializers.CharField(help_text="GPU_I_ID of a MIG instance; empty for the whole GPU")
    profile = serializers.CharField()
    used_mib = serializers.FloatField(allow_null=True)
    free_mib = serializers.FloatField(allow_null=True)
    reserved_mib = serializers.FloatField(allow_null=True)
    total_mib = serializers.FloatField(allow_null=True)
    utilisation_percent = serializers.FloatField(allow_null=True)
    utilisation_from = serializers.CharField(help_text="the metric that it stands on")
    average_percent = serializers.FloatField(allow_null=True, help_text="over the last 15 minutes")
    minutes_measured = serializers.IntegerField()
    is_low_use = serializers.BooleanField(allow_null=True)
    power_watts = serializers.FloatField(allow_null=True)
    temperature_celsius = serializers.FloatField(allow_null=True)
    last_xid = serializers.IntegerField(allow_null=True)
    workloads = serializers.ListField(child=serializers.CharField(), help_text="as the exporter names them")
    placeholder = serializers.CharField()
    not_measured = serializers.DictField(child=serializers.CharField())
    no_data_since = serializers.DateTimeField(allow_null=True)
    taken_at = serializers.DateTimeField()


class DeviceReadingSerializer(serializers.Serializer):
    """A GPU of the newest snapshot; units is empty where no series speaks of it."""

    node = serializers.CharField()
    index = serializers.IntegerField()
    uuid = serializers.CharField()
    units = UnitReadingSerializer(many=True)
