"""The shape of webhooks and deliveries on the wire. Secrets are in none but the answer that makes one."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer, Truth
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.states import EVENTS


class WebhookSerializer(serializers.ModelSerializer):
    """cluster: name, null for all of them and the console. failures: times in a row without an answer."""

    cluster = serializers.CharField(source="cluster.name", allow_null=True, default=None)
    events = serializers.ListField(child=serializers.ChoiceField(choices=list(EVENTS)))

    class Meta:
        model = Webhook
        fields = [
            "id",
            "name",
            "cluster",
            "url",
            "events",
            "is_active",
            "created_at",
            "failures",
            "wait_until",
        ]
        read_only_fields = fields


class NewWebhookSerializer(WebhookSerializer):
    """secret: shown this once."""

    secret = serializers.CharField()

    class Meta(WebhookSerializer.Meta):
        fields = [*WebhookSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class WebhookWishSerializer(StrictSerializer):
    """cluster: a name; null or left out for all of them and the console itself."""

    name = serializers.CharField(max_length=60)
    url = serializers.CharField(max_length=500)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=list(EVENTS)), min_length=1, max_length=20
    )
    cluster = serializers.CharField(max_length=63, allow_null=True, default=None)


class WebhookSwitchSerializer(StrictSerializer):
    is_active = Truth(help_text="false: nothing is decided or sent")


class DeliverySerializer(serializers.ModelSerializer):
    """id: what receivers tell repeats by. next_try_at: null once it arrived or was given up."""

    id = serializers.UUIDField(source="key")

    class Meta:
        model = Delivery
        fields = [
            "id", "event", "created_at", "tries", "next_try_at", "delivered_at", "status", "error",
        ]  # fmt: skip
        read_only_fields = fields
