"""The shape of alerts on the wire."""

from __future__ import annotations

from rest_framework import serializers

from apps.alerts.models import Alert


class AlertSerializer(serializers.ModelSerializer):
    """Open while cleared_at is null. cluster: null where it is about the console itself. Names that a cluster
    gave stand in the sentences: show them as text."""

    cluster = serializers.CharField(source="cluster.name", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Alert
        fields = [
            "id",
            "cluster",
            "kind",
            "subject",
            "what",
            "action",
            "runbook",
            "is_bad",
            "since",
            "raised_at",
            "seen_at",
            "cleared_at",
        ]
        read_only_fields = fields
