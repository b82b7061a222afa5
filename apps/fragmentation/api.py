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

from apps.accounts.conditions import CONDITIONAL, tag_of, unchanged
from apps.accounts.moments import EXAMPLE, read_moment
from apps.clusters.api import CLUSTER, cluster_asked
from apps.fragmentation.models import Report
from apps.fragmentation.queries import latest_report, series
from apps.fragmentation.serializers import ReportSerializer, TrendPointSerializer
from apps.fragmentation.trends import RANGES, Scope, as_point, trend_of, with_part

DEFAULT_SPAN = timedelta(hours=24)


class FragmentationViewSet(GenericViewSet):
    queryset = Report.objects.none()
    serializer_class = ReportSerializer
    filter_backends: list[Any] = []

    @extend_schema(parameters=[CLUSTER, *CONDITIONAL], responses=ReportSerializer)
    @action(detail=False)
    def latest(self, request: Request) -> Response:
        """The newest report of one cluster."""
        cluster = cluster_asked(request)
        report = latest_report(cluster)
        if report is None:
            raise NotFound(f"nothing of {cluster.name} has been measured yet")
        tag = tag_of(report.pk, report.measured_at, report.seen_until)
        return unchanged(request, tag) or Response(ReportSerializer(report).data, headers={"ETag": tag})

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter(
                "range",
                str,
                enum=list(RANGES),
                description="the trend up to now in about 300 points at most, peaks and gaps kept",
            ),
            OpenApiParameter(
                "since", datetime, description="every report since then (RFC 3339); by default 24 hours ago"
            ),
            OpenApiParameter("pool", str, description="only nodes of this pool"),
            OpenApiParameter("model", str, description="only nodes with this GPU model"),
        ],
        responses=TrendPointSerializer(many=True),
    )
    @action(detail=False, serializer_class=TrendPointSerializer)
    def series(self, request: Request) -> Response:
        """The trend of a cluster, a pool or a model: thinned by `range`, or whole by `since`."""
        cluster, scope = cluster_asked(request), _scope(request)
        asked = request.query_params.get("range")
        if asked is None:
            rows = self.paginate_queryset(with_part(series(cluster, _since(request)), scope)) or []
            page = [as_point(row) for row in rows]
        else:
            points = trend_of(cluster, _span(request, asked), until=timezone.now(), scope=scope)
            page = self.paginate_queryset(points) or []
        return self.get_paginated_response(TrendPointSerializer(page, many=True).data)


def _scope(request: Request) -> Scope:
    names = {key: request.query_params.get(key, "") for key in ("pool", "model")}
    for key, name in names.items():
        if "\x00" in name:
            raise ValidationError({key: ["a name has no NUL characters"]})
    return Scope(**names)


def _span(request: Request, asked: str) -> str:
    if "since" in request.query_params:
        raise ValidationError({"range": ["give either range or since, not both"]})
    if asked not in RANGES:
        raise ValidationError({"range": [f"choose one of {', '.join(RANGES)}"]})
    return asked


def _since(request: Request) -> datetime:
    text = request.query_params.get("since")
    if text is None:
        return timezone.now() - DEFAULT_SPAN
    try:
        return read_moment(text)
    except ValueError as error:
        raise ValidationError({"since": [EXAMPLE]}) from error
