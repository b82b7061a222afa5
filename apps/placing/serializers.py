"""The shape of placement policies and verdicts on the wire. What may stand in a policy is `rules`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from apps.accounts.strict import StrictSerializer, Truth
from apps.placing.models import PlacementPolicy, Verdict
from apps.placing.queries import standing_of
from apps.placing.rules import LIMITS
from apps.placing.states import Scoring, WhenStale


def _whole(name: str, words: str) -> serializers.IntegerField:
    low, high = LIMITS[name]
    usual = getattr(PlacementPolicy(), name)
    return serializers.IntegerField(min_value=low, max_value=high, default=usual, help_text=words)


class PlacementWishesSerializer(StrictSerializer):
    """What can be edited. PUT replaces all of it (what is left out gets its default), PATCH what is named."""

    scoring = serializers.ChoiceField(choices=Scoring.choices, default=Scoring.PACKING)
    weight = _whole("weight", "what the scheduler multiplies our scores (0 to 10) by, and by 10")
    when_stale = serializers.ChoiceField(choices=WhenStale.choices, default=WhenStale.REFUSE)
    stale_after_seconds = _whole("stale_after_seconds", "age of the extender's picture from which that holds")
    is_ignorable = Truth(default=True, help_text="the scheduler goes on alone where the extender fails")
    binds = Truth(default=False, help_text="we bind the pods, not the scheduler")
    preempts = Truth(default=True, help_text="we are asked before pods are preempted")
    reserved_mib = _whole("reserved_mib", "MiB of each GPU's memory that are never given out in shares")
    gang_seconds = _whole("gang_seconds", "how long room is kept for the rest of a gang that has begun")
    spares_drifted = Truth(default=True, help_text="GPU pods keep off nodes that show less than they did")
    keeps_rooms = Truth(
        default=False, help_text="executions make no paper holds where the scheduler is proved to obey"
    )


class ExtenderStandingSerializer(serializers.Serializer):
    is_alive = serializers.BooleanField()
    is_fresh = serializers.BooleanField()
    is_asked = serializers.BooleanField()
    sentence = serializers.CharField()


class PlacementPolicySerializer(serializers.ModelSerializer):
    """The extender's policy on one cluster, and how the extender stands."""

    cluster = serializers.CharField(source="cluster.name", read_only=True)
    changed_by = serializers.CharField(source="changed_by.username", default=None, allow_null=True)
    extender = serializers.SerializerMethodField()

    class Meta:
        model = PlacementPolicy
        fields = [
            "cluster",
            "version",
            *("scoring", "weight", "when_stale", "stale_after_seconds", "is_ignorable", "binds", "preempts"),
            *(
                "reserved_mib",
                "gang_seconds",
                "spares_drifted",
                "keeps_rooms",
                "changed_at",
                "changed_by",
                "extender",
            ),
        ]
        read_only_fields = fields

    def get_extender(self, policy: PlacementPolicy) -> ExtenderStandingSerializer:
        found = standing_of(policy.cluster, policy, timezone.now())
        told: Any = ExtenderStandingSerializer(found).data
        return told


class SchedulerConfigurationSerializer(serializers.Serializer):
    """text: the KubeSchedulerConfiguration in YAML. url_prefix: "" where this console knows no address.
    notes: what to mind. For admins in the browser it holds the address's secret, else the word SECRET."""

    text = serializers.CharField()
    url_prefix = serializers.CharField(allow_blank=True)
    managed_resources = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField())


class PlacementScorePartSerializer(serializers.Serializer):
    name = serializers.CharField()
    points = serializers.FloatField()
    words = serializers.CharField(allow_blank=True)


class PlacementTopNodeSerializer(serializers.Serializer):
    """score: as the scheduler was told, 0 to 10. points: the policy's, with the parts that they add up to."""

    node = serializers.CharField()
    score = serializers.IntegerField()
    points = serializers.FloatField()
    parts = PlacementScorePartSerializer(many=True)


class PlacementRefusalSerializer(serializers.Serializer):
    reason = serializers.CharField()
    nodes = serializers.IntegerField()


class PlacementVerdictSerializer(serializers.ModelSerializer):
    """One answer of the extender about one pod. Names that the cluster gave stand in it."""

    cluster = serializers.CharField(source="cluster.name", read_only=True)
    refused = serializers.SerializerMethodField()
    top = PlacementTopNodeSerializer(many=True)

    class Meta:
        model = Verdict
        fields = [
            *("id", "cluster", "verb", "at", "pod_uid", "pod_key", "scoring", "picture_age_seconds"),
            *("offered", "fitting", "refused", "top", "node", "note"),
        ]
        read_only_fields = fields

    def get_refused(self, verdict: Verdict) -> PlacementRefusalSerializer:
        told: Any = tell_refused(verdict)
        return told


def tell_refused(verdict: Verdict) -> list[dict[str, Any]]:
    """Most nodes first."""
    counts = sorted(verdict.refused.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"reason": reason, "nodes": nodes} for reason, nodes in counts]
