"""What has waited long and asks for much GPU memory: what less would change, or why it is not offered.

The change itself is a plan of goal lower-memory, asked for and approved like any other.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.rates import require_rate
from apps.clusters.api import CLUSTER, snapshot_asked
from apps.clusters.models import Cluster
from apps.clusters.queries import open_snapshot
from apps.pending.asking import weigh_fallbacks
from apps.planner.fallback import Candidate
from apps.planner.plan import Lowering
from apps.plans.policies import fallback_limits, policy_of

NOT_WEIGHED = "What it would change was not looked for, since others wait before it: a plan tells."


class FallbackSerializer(serializers.Serializer):
    """workload: to name in a plan of goal lower-memory. offers_mib: null where nothing is offered; why_not
    says why. starts_pods: of waiting_pods, could start then without any move, on these nodes."""

    workload = serializers.CharField()
    owner = serializers.CharField(help_text="kind and namespace/name; empty where there is none to change")
    waited_seconds = serializers.FloatField()
    waiting_pods = serializers.IntegerField()
    asks_mib = serializers.IntegerField()
    offers_mib = serializers.IntegerField(allow_null=True)
    starts_pods = serializers.IntegerField(allow_null=True)
    nodes = serializers.ListField(child=serializers.CharField())
    sentence = serializers.CharField()
    why_not = serializers.CharField()


class FallbackViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = FallbackSerializer
    filter_backends: list[Any] = []

    @extend_schema(parameters=[CLUSTER])
    def list(self, request: Request) -> Response:
        """What has waited longer and asks for more GPU memory than the policy says, by the queue's order."""
        require_rate("planning", request.user)
        cluster, row = snapshot_asked(request)
        found = weigh_fallbacks(open_snapshot(row), fallback_limits(policy_of(cluster)))
        page = self.paginate_queryset([as_row(one, lowering) for one, lowering in found])
        return self.get_paginated_response(FallbackSerializer(page, many=True).data)


def as_row(one: Candidate, lowering: Lowering | None) -> dict[str, Any]:
    """One line, for the wire and for the page."""
    owner = one.owner
    return {
        "workload": one.key,
        "owner": f"{owner.kind} {owner.namespace}/{owner.name}" if owner is not None else "",
        "waited_seconds": round(one.waited_seconds, 3),
        "waiting_pods": len(lowering.pods) if lowering is not None else len(one.pods),
        "asks_mib": one.ask.mib,
        "offers_mib": one.after.mib if one.after is not None else None,
        "starts_pods": lowering.starts if lowering is not None else None,
        "nodes": list(lowering.nodes) if lowering is not None else [],
        "sentence": lowering.reason if lowering is not None else NOT_WEIGHED if one.after is not None else "",
        "why_not": one.why_not,
    }
