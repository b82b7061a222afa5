"""The shape of what is held in clusters on the wire."""

from __future__ import annotations

from rest_framework import serializers


class HeldTraceSerializer(serializers.Serializer):
    """what: "cordon", "taint", "gate", "hold", "toleration" or the kind of an object of ours. where and
    detail hold names that the cluster gave: show them as text. owned: value of our label. standing: "ours"
    (an open execution's), "left over" (of one that has ended), "unknown" (to this database), or "stays".
    """

    what = serializers.CharField()
    where = serializers.CharField()
    standing = serializers.CharField()
    execution = serializers.IntegerField(allow_null=True)
    owned = serializers.CharField(allow_blank=True)
    detail = serializers.CharField(allow_blank=True)
    since = serializers.DateTimeField(allow_null=True)
    age_seconds = serializers.IntegerField(allow_null=True)
    deadline = serializers.DateTimeField(allow_null=True)
    is_overdue = serializers.BooleanField()


class LastReleaseSerializer(serializers.Serializer):
    """The last order to release everything. ended_at null: a worker is at it, or comes soon."""

    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    released = serializers.ListField(child=serializers.CharField())
    left = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    error = serializers.CharField(allow_blank=True)


class HoldingsSerializer(serializers.Serializer):
    """looked_at: when it was found, null if nobody has looked. error: why a later look failed. unread: what
    the credential may not list, and is therefore not known."""

    cluster = serializers.CharField()
    looked_at = serializers.DateTimeField(allow_null=True)
    tried_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    unread = serializers.ListField(child=serializers.CharField())
    held = HeldTraceSerializer(many=True)
    last_release = LastReleaseSerializer(allow_null=True)
