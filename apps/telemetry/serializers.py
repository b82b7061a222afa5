"""The shape of telemetry on the wire. A token never appears here."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer
from apps.telemetry.services import LONGEST_TOKEN

LONGEST_PEM = 64 * 1024


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
