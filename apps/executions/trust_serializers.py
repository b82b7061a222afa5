"""The shape of cluster preflights and of predictions made in shadow on the wire."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.strict import StrictSerializer, Truth
from apps.executions.cluster_preflight.lines import Standing
from apps.executions.models import Prediction


class LineSerializer(serializers.Serializer):
    """planned-only: what it is about is planned and shown, not carried out. Names that the cluster gave stand
    in the sentences: show them as text."""

    subject = serializers.CharField()
    standing = serializers.ChoiceField(choices=[str(one) for one in Standing])
    found = serializers.CharField()
    means = serializers.CharField(allow_blank=True)
    action = serializers.CharField(allow_blank=True)


class ConsoleSerializer(serializers.Serializer):
    """Which console may change the cluster. identity: this one's. holder: another one that has it, "" for
    none. until: this one has its Lease until then, null where it does not. error: why the Lease cannot be
    kept."""

    identity = serializers.CharField()
    holder = serializers.CharField(allow_blank=True)
    until = serializers.DateTimeField(allow_null=True)
    epoch = serializers.IntegerField()
    error = serializers.CharField(allow_blank=True)


class SafeModeSerializer(serializers.Serializer):
    """This database is older than the cluster: nothing is sent. found: what the cluster carries that is not
    known here, as looked at then (null: nobody has looked yet). seen: what leaving has to name of that
    list."""

    since = serializers.DateTimeField()
    reason = serializers.CharField()
    found = serializers.ListField(child=serializers.CharField())
    looked_at = serializers.DateTimeField(allow_null=True)
    seen = serializers.CharField()


class LeaveSafeModeSerializer(StrictSerializer):
    seen = serializers.CharField(
        min_length=1,
        max_length=40,
        trim_whitespace=False,
        help_text="`safe_mode.seen` of the list that you have looked at",
    )
    reason = serializers.CharField(
        allow_blank=True, default="", max_length=500, help_text="why it may go on, for the audit ledger"
    )


class PreflightSerializer(serializers.Serializer):
    """looked_at: when the lines were found, null if nobody has looked. error: why a later look failed.
    shadow: why nothing can be started, empty where plans can be. switch: what the kill switch in the cluster
    itself has against new effects, empty where it is off or nobody has looked."""

    cluster = serializers.CharField()
    looked_at = serializers.DateTimeField(allow_null=True)
    tried_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    shadow = serializers.CharField(allow_blank=True)
    switch = serializers.CharField(allow_blank=True)
    console = ConsoleSerializer()
    safe_mode = SafeModeSerializer(allow_null=True)
    lines = LineSerializer(many=True)


class ShadowWishSerializer(StrictSerializer):
    is_shadow = Truth(
        required=False, help_text="true: plans are made and compared, none can be started; left out: as it is"
    )


class ValiditySerializer(serializers.Serializer):
    after = serializers.IntegerField(help_text="seconds after the prediction")
    valid = serializers.IntegerField()
    looked = serializers.IntegerField(help_text="of how many it is known")


class ShadowSerializer(serializers.Serializer):
    """What would have been, of the last `days`. Of plans for the queue and for free nodes together;
    freed_nodes and free_nodes are means of the latter. allowed: computed from budgets, not tried."""

    cluster = serializers.CharField()
    shadow = serializers.CharField(allow_blank=True, help_text="why it is in shadow, empty where it is not")
    days = serializers.IntegerField()
    predictions = serializers.IntegerField()
    with_moves = serializers.IntegerField()
    validity = ValiditySerializer(many=True)
    evictions = serializers.IntegerField()
    allowed = serializers.IntegerField()
    freed_nodes = serializers.FloatField()
    free_nodes = serializers.FloatField()
    waited = serializers.IntegerField()
    would_start = serializers.IntegerField()
    started = serializers.IntegerField()
    median_seconds = serializers.FloatField(allow_null=True)


class PredictionSerializer(serializers.ModelSerializer):
    """looks: what was seen 5, 15 and 60 min later. started: waiting pods that started by themselves."""

    summary = serializers.JSONField()
    moves = serializers.JSONField()
    looks = serializers.JSONField()
    started = serializers.JSONField()

    class Meta:
        model = Prediction
        fields = ["id", "goal", "made_at", "summary", "moves", "looks", "started", "closed_at"]
        read_only_fields = fields
