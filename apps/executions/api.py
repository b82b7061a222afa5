"""Executions over REST: parse, call one service or query, answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, cast

import django_filters
from django.db.models import QuerySet
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.idempotency import IDEMPOTENCY_KEY, once_per_key
from apps.accounts.limits import Scope
from apps.accounts.ordering import Ordering
from apps.accounts.parameters import ROW, RowFilter, whole_number
from apps.clusters.api import CLUSTER, cluster_asked
from apps.executions import services
from apps.executions.bundle import make_bundle
from apps.executions.gpu_hours.telling import sum_hours
from apps.executions.models import Execution
from apps.executions.queries import events_of, execution_for, executions_for, steps_of
from apps.executions.repairing import repair_nodes
from apps.executions.serializers import (
    ExecutionDetailSerializer,
    ExecutionSerializer,
    GpuHoursTotalSerializer,
    ReasonSerializer,
    StartSerializer,
    StepEventSerializer,
    StepSerializer,
)
from apps.executions.settling import settle_by_hand
from apps.executions.states import ExecutionState
from apps.plans.queries import plan_for


class ExecutionFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="plan__cluster__name")
    plan = RowFilter(field_name="plan_id")
    state = django_filters.MultipleChoiceFilter(choices=ExecutionState.choices)

    class Meta:
        model = Execution
        fields: list[str] = []


class ExecutionViewSet(ReadOnlyModelViewSet):
    """Executions on the clusters that you see, the newest first."""

    queryset = Execution.objects.none()
    serializer_class = ExecutionSerializer
    filterset_class = ExecutionFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "created_at", "finished_at", "state"]
    scopes = dict.fromkeys(
        ["create", "pause", "resume", "cancel", "roll_back", "settle", "repair"], Scope.CONTROL
    )
    rates = dict.fromkeys(scopes, "operating")
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Execution]:
        return executions_for(self.request.user)

    @extend_schema(responses=ExecutionDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One execution with all its steps and events."""
        return Response(ExecutionDetailSerializer(self._execution()).data)

    @extend_schema(
        request=StartSerializer, responses={201: ExecutionDetailSerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    @once_per_key
    def create(self, request: Request) -> Response:
        """Start an approved plan."""
        parsed = StartSerializer(data=request.data)
        parsed.is_valid(raise_exception=True)
        plan = plan_for(request.user, parsed.validated_data["plan"])
        started = services.start_execution(actor=cast(Any, request.user), plan_id=plan.pk)
        return Response(ExecutionDetailSerializer(started).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Start nothing new until it is resumed; what was already sent is awaited."""
        return self._change(services.pause)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on after a pause."""
        return self._change(services.resume)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Stop, and release what is held. Evictions that happened are not undone."""
        return self._change(services.cancel)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"])
    def repair(self, request: Request, pk: str) -> Response:
        """Put nodes whose MIG change hangs or failed back to their earlier layout; it goes on waiting."""
        return self._change(repair_nodes)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"], url_path="roll-back")
    def roll_back(self, request: Request, pk: str) -> Response:
        """Stop, release holds and gates, restore labels and our cordons in reverse order."""
        return self._change(services.roll_back)

    @extend_schema(request=ReasonSerializer, responses=ExecutionDetailSerializer)
    @action(detail=True, methods=["post"])
    def settle(self, request: Request, pk: str) -> Response:
        """Tell that what could not be undone was put right by hand (reason: how); the rest is undone."""
        return self._change(settle_by_hand)

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True)
    def bundle(self, request: Request, pk: str) -> FileResponse:
        """Its incident bundle: ledger, requests, approvals, snapshots, audit in one zip; no secrets."""
        execution = self._execution()
        file = make_bundle(execution=execution, actor=cast(Any, request.user))
        return FileResponse(file, as_attachment=True, filename=f"execution-{execution.pk}.zip")

    def _change(self, service: Callable[..., Any]) -> Response:
        parsed = ReasonSerializer(data=self.request.data)
        parsed.is_valid(raise_exception=True)
        execution = self._execution()
        service(execution_id=execution.pk, actor=self.request.user, **parsed.validated_data)
        return Response(ExecutionDetailSerializer(self._execution()).data)

    @extend_schema(
        parameters=[OpenApiParameter("after", ROW, description="only events with a higher id")],
        responses=StepEventSerializer(many=True),
    )
    @action(detail=True, serializer_class=StepEventSerializer, filter_backends=[])
    def events(self, request: Request, pk: str) -> Response:
        """Its events alone, oldest first: what to read again and again while it runs."""
        after = whole_number(request, "after", 0)
        page = self.paginate_queryset(events_of(self._execution(), after=after).order_by("pk")) or []
        return self.get_paginated_response(StepEventSerializer(page, many=True).data)

    @extend_schema(responses=StepSerializer(many=True))
    @action(detail=True, serializer_class=StepSerializer, filter_backends=[])
    def steps(self, request: Request, pk: str) -> Response:
        """Its steps alone, in order."""
        page = self.paginate_queryset(steps_of(self._execution()).order_by("position")) or []
        return self.get_paginated_response(StepSerializer(page, many=True).data)

    @extend_schema(parameters=[CLUSTER], responses=GpuHoursTotalSerializer)
    @action(detail=False, url_path="gpu-hours", filter_backends=[], pagination_class=None)
    def gpu_hours(self, request: Request) -> Response:
        """What the executions of a cluster's last 30 days cost and brought, beside what was predicted."""
        place = cluster_asked(request)
        total = sum_hours(place)
        return Response(GpuHoursTotalSerializer({"cluster": place.name, **asdict(total)}).data)

    def _execution(self) -> Execution:
        return execution_for(self.request.user, int(self.kwargs["pk"]))
