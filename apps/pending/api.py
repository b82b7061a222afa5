"""What waits, over REST, from the newest snapshot of one cluster."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, unchanged
from apps.accounts.ordering import ordered, ordering_parameter
from apps.accounts.parameters import plain_text
from apps.clusters.api import CLUSTER, facts_tag, snapshot_asked
from apps.clusters.models import Cluster
from apps.clusters.queries import open_snapshot
from apps.pending.queries import waiting_workloads
from apps.pending.serializers import WaitingWorkloadSerializer

ORDER = ["key", "namespace", "priority", "waiting_since", "gpus", "gpus_per_pod", "reason_code"]


class PendingViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = WaitingWorkloadSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("namespace", str, description="only of this namespace"),
            OpenApiParameter("reason_code", str, description="only what waits for this reason"),
            ordering_parameter(ORDER),
            *CONDITIONAL,
        ]
    )
    def list(self, request: Request) -> Response:
        """Gangs and pods that wait, by priority then age unless ordered otherwise, each with its reason."""
        _, row = snapshot_asked(request)
        wanted = {key: plain_text(request, key) for key in ("namespace", "reason_code")}
        tag = facts_tag(request, row)
        if same := unchanged(request, tag):
            return same
        found = [
            one
            for one in waiting_workloads(open_snapshot(row))
            if all(not value or getattr(one, key) == value for key, value in wanted.items())
        ]
        if request.query_params.get("ordering"):
            rows = self.get_serializer(found, many=True).data
            page: Any = self.paginate_queryset(ordered(request, rows, ORDER))
        else:
            page = self.get_serializer(self.paginate_queryset(found), many=True).data
        answer = self.get_paginated_response(page)
        answer["ETag"] = tag
        return answer
