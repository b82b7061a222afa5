"""The shape of telemetry on the wire. A token never appears here."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer
from apps.telemetry.services import LONGEST_TOKEN

LONGEST_PEM = 64 * 1024


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


class SourceSerializer(serializers.Serializer):
    """Where a cluster's telemetry is read from. error: why it cannot be read; empty while it can."""

    cluster = serializers.CharField()
    address = serializers.CharField(help_text="empty: from nowhere")
    has_token = serializers.BooleanField()
    read_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField()
    failed_at = serializers.DateTimeField(allow_null=True)
    warnings = serializers.ListField(child=serializers.CharField())


class SourceRequestSerializer(StrictSerializer):
    """An empty address: read from nowhere any more. token and ca_certificate are kept if they are left out
    and the address stays the same; neither is ever told."""

    address = serializers.CharField(max_length=300, allow_blank=True)
    token = serializers.CharField(max_length=LONGEST_TOKEN, allow_blank=True, required=False, write_only=True)
    ca_certificate = serializers.CharField(
        max_length=LONGEST_PEM, allow_blank=True, required=False, write_only=True
    )
