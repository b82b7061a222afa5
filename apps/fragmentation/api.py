"""Fragmentation over REST: the newest report, and the trend."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.moments import EXAMPLE, read_moment
from apps.clusters.api import CLUSTER, cluster_asked
from apps.fragmentation.models import Report
from apps.fragmentation.queries import latest_report, series
from apps.fragmentation.serializers import ReportSerializer, TrendPointSerializer

DEFAULT_SPAN = timedelta(hours=24)


class FragmentationViewSet(GenericViewSet):
    queryset = Report.objects.none()
    serializer_class = ReportSerializer
    filter_backends: list[Any] = []

    @extend_schema(parameters=[CLUSTER], responses=ReportSerializer)
    @action(detail=False)
    def latest(self, request: Request) -> Response:
        """The newest report of one cluster."""
        cluster = cluster_asked(request)
        report = latest_report(cluster)
        if report is None:
            raise NotFound(f"nothing of {cluster.name} has been measured yet")
        return Response(ReportSerializer(report).data)

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("since", datetime, description="RFC 3339; by default 24 hours ago"),
        ],
        responses=TrendPointSerializer(many=True),
    )
    @action(detail=False, serializer_class=TrendPointSerializer)
    def series(self, request: Request) -> Response:
        """The trend of one cluster."""
        found = series(cluster_asked(request), _since(request)).defer("body")
        page = self.paginate_queryset(found)
        return self.get_paginated_response(TrendPointSerializer(page, many=True).data)


def _since(request: Request) -> datetime:
    text = request.query_params.get("since")
    if text is None:
        return timezone.now() - DEFAULT_SPAN
    try:
        return read_moment(text)
    except ValueError as error:
        raise ValidationError({"since": [EXAMPLE]}) from error
