"""What waits, over REST, from the newest snapshot of one cluster."""

from __future__ import annotations

from typing import Any, cast

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, tag_of, unchanged
from apps.accounts.ordering import ordered, ordering_parameter
from apps.accounts.parameters import plain_text, yes_or_no
from apps.accounts.rates import require_rate
from apps.clusters.api import CLUSTER, cluster_asked, facts_tag, snapshot_asked
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import open_snapshot
from apps.fragmentation.trends import RANGES
from apps.pending.history import wait_trends
from apps.pending.queries import places, queue_in_order
from apps.pending.serializers import WaitingWorkloadSerializer, WaitTrendSerializer
from apps.pending.starts import expected_starts
from apps.pending.unblocking import MOST_ASKED, find_for_first, known_sentences
from apps.planner.waiting import WaitingWorkload

ORDER = [
    *("position", "key", "namespace", "queue", "priority", "waiting_since", "wait_seconds"),
    *("gpus", "gpus_per_pod", "reason_code"),
]


class PendingViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = WaitingWorkloadSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("namespace", str, description="only of this namespace"),
            OpenApiParameter("queue", str, description="only what names this queue"),
            OpenApiParameter("reason_code", str, description="only what waits for this reason"),
            OpenApiParameter(
                "unblocking",
                bool,
                description=f"true: ask the planner what would let the first {MOST_ASKED} of them start, for "
                "some seconds each; without it, what it said when it was last asked",
            ),
            ordering_parameter(ORDER),
            *CONDITIONAL,
        ]
    )
    def list(self, request: Request) -> Response:
        """Gangs and pods that wait, in the fair order unless ordered otherwise, each with its reason."""
        cluster, row = snapshot_asked(request)
        wanted = {key: plain_text(request, key) for key in ("namespace", "queue", "reason_code")}
        if yes_or_no(request, "unblocking"):
            require_rate("planning", request.user)
            find_for_first(cluster, row, open_snapshot(row), _among(row, wanted))
        picture = open_snapshot(row)
        starts = expected_starts(cluster, picture)
        told_before = known_sentences(cluster), starts.tag
        tag = tag_of(facts_tag(request, row), row.taken_at.isoformat(), told_before)
        if same := unchanged(request, tag):
            return same
        found = _among(row, wanted)
        told = {"cluster": cluster, "places": places(picture), "starts": starts.by_key}
        if request.query_params.get("ordering"):
            rows = WaitingWorkloadSerializer(found, many=True, context=told).data
            page: Any = self.paginate_queryset(ordered(request, cast(Any, rows), ORDER))
        else:
            page = WaitingWorkloadSerializer(self.paginate_queryset(found), many=True, context=told).data
        answer = self.get_paginated_response(page)
        answer["ETag"] = tag
        return answer

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("range", str, enum=tuple(RANGES), description="up to now; 24h by default"),
            OpenApiParameter("queue", str, description='only of this one, as told: "namespace ml"'),
            OpenApiParameter("shape", str, description='only of this shape, as told: "8 GPUs, nvlink"'),
        ],
        responses=WaitTrendSerializer(many=True),
    )
    @action(detail=False, serializer_class=WaitTrendSerializer)
    def waits(self, request: Request) -> Response:
        """How long pods with devices waited, per queue and shape, as a trend; most starts first."""
        cluster = cluster_asked(request)
        span = plain_text(request, "range") or "24h"
        if span not in RANGES:
            raise ValidationError({"range": [f"choose one of {', '.join(RANGES)}"]})
        found = wait_trends(
            cluster,
            span=span,
            until=timezone.now(),
            queue=plain_text(request, "queue"),
            shape=plain_text(request, "shape"),
        )
        page = self.paginate_queryset(cast(Any, found))
        return self.get_paginated_response(WaitTrendSerializer(page, many=True).data)


def _among(row: Snapshot, wanted: dict[str, str]) -> list[WaitingWorkload]:
    return [
        one
        for one in queue_in_order(open_snapshot(row))
        if all(not value or getattr(one, key) == value for key, value in wanted.items())
    ]
