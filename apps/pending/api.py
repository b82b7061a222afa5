"""What waits, over REST, from the newest snapshot of one cluster."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.clusters.api import CLUSTER, picture_asked
from apps.clusters.models import Cluster
from apps.pending.queries import waiting_workloads
from apps.pending.serializers import WaitingWorkloadSerializer


class PendingViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = WaitingWorkloadSerializer
    filter_backends: list[Any] = []

    @extend_schema(parameters=[CLUSTER])
    def list(self, request: Request) -> Response:
        """Gangs and pods that wait, by priority then age, each with its reason."""
        _, picture = picture_asked(request)
        page = self.paginate_queryset(waiting_workloads(picture))
        return self.get_paginated_response(WaitingWorkloadSerializer(page, many=True).data)
