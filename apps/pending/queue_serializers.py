"""The shape of a queue with quota, on the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.planner.queue_states import PartState, QueueState

UNITS = "CPU in millicores, memory in bytes, all else counted"


class QueueShareSerializer(serializers.Serializer):
    """One resource of one flavor. CPU in millicores, memory in bytes, all else counted; null: no bound."""

    flavor = serializers.CharField(help_text="empty where the controller knows none")
    resource = serializers.CharField()
    quota = serializers.FloatField(allow_null=True, help_text=f"its own; {UNITS}; null: no bound")
    used = serializers.FloatField(help_text="as its controller says, what is borrowed included")
    borrowed = serializers.FloatField(help_text="of what is used, beyond the quota")
    limit = serializers.FloatField(allow_null=True, help_text="the most that it may ever use; null: no bound")
    left = serializers.FloatField(
        allow_null=True, help_text="what could be given out now, what may be borrowed counted; null: no bound"
    )


class QueueSerializer(serializers.Serializer):
    """A queue that hands out quota, of any controller; so are cohorts and namespace quotas."""

    key = serializers.CharField()
    controller = serializers.CharField()
    kind = serializers.CharField(help_text="of its object: ClusterQueue, Cohort, Queue, ElasticQuota, …")
    name = serializers.CharField()
    namespace = serializers.CharField(help_text="where it lies in one; else empty")
    namespaces = serializers.ListField(
        child=serializers.CharField(), help_text="whose workloads it takes, as far as told"
    )
    parent_queue = serializers.CharField(
        help_text="key of the queue or cohort that it borrows from; empty without"
    )
    is_strict = serializers.BooleanField(
        help_text="who is in front and cannot be admitted keeps all behind it waiting"
    )
    stopped = serializers.CharField(help_text="why it admits nobody now; empty if it does")
    pending_workloads = serializers.IntegerField(allow_null=True, help_text="as its controller counts them")
    admitted_workloads = serializers.IntegerField(allow_null=True, help_text="as its controller counts them")
    shares = QueueShareSerializer(many=True)
    warnings = serializers.ListField(child=serializers.CharField())


def queue_row(state: QueueState) -> dict[str, Any]:
    """The fields of `QueueSerializer`."""
    queue = state.queue
    same = ("key", "kind", "name", "namespace", "is_strict", "stopped")
    return {
        **{name: getattr(queue, name) for name in same},
        "controller": str(queue.controller),
        "parent_queue": queue.parent,
        "namespaces": list(queue.namespaces),
        "pending_workloads": queue.pending,
        "admitted_workloads": queue.admitted,
        "shares": [share_row(part) for part in state.parts],
        "warnings": list(queue.warnings),
    }


def share_row(part: PartState) -> dict[str, Any]:
    share = part.share
    return {
        "flavor": share.flavor,
        "resource": share.resource,
        "quota": share.quota,
        "used": share.used,
        "borrowed": share.borrowed,
        "limit": share.limit,
        "left": part.left,
    }
