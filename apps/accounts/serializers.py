"""The shape of ledger entries on the wire."""

from rest_framework import serializers

from apps.audit.models import AuditEntry


class AuditEntrySerializer(serializers.ModelSerializer):
    """actor: null for the console itself. cluster: "" for what belongs to none."""

    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)
    detail = serializers.JSONField()

    class Meta:
        model = AuditEntry
        fields = ["id", "at", "actor", "action", "subject", "cluster", "detail", "previous_hash", "hash"]
        read_only_fields = fields
