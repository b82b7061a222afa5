"""Queues with quota over REST, from the newest snapshot of one cluster."""

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
from apps.pending.queries import queue_states
from apps.pending.queue_serializers import QueueSerializer, queue_row
from apps.planner.queues import Controller

ORDER = ["key", "name", "controller", "kind", "namespace", "pending_workloads", "admitted_workloads"]


class QueueViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = QueueSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter(
                "controller", str, description=f"only of one of {', '.join(map(str, Controller))}"
            ),
            OpenApiParameter("kind", str, description="only of this kind: ClusterQueue, Cohort, Queue, …"),
            OpenApiParameter("namespace", str, description="only those that take this namespace's workloads"),
            ordering_parameter(ORDER),
            *CONDITIONAL,
        ]
    )
    def list(self, request: Request) -> Response:
        """Queues with their quota, used and borrowed, by controller and name unless ordered otherwise."""
        _, row = snapshot_asked(request)
        wanted = {key: plain_text(request, key) for key in ("controller", "kind", "namespace")}
        tag = facts_tag(request, row)
        if same := unchanged(request, tag):
            return same
        rows = [
            one
            for one in map(queue_row, queue_states(open_snapshot(row)))
            if (not wanted["controller"] or one["controller"] == wanted["controller"])
            and (not wanted["kind"] or one["kind"] == wanted["kind"])
            and (not wanted["namespace"] or wanted["namespace"] in one["namespaces"])
        ]
        page = self.paginate_queryset(ordered(request, rows, ORDER))  # type: ignore[arg-type]
        answer = self.get_paginated_response(self.get_serializer(page, many=True).data)
        answer["ETag"] = tag
        return answer
