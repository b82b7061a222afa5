"""Plans over REST: parse, call one service or query, answer. Approval is not here: it needs a browser."""

from __future__ import annotations

from typing import Any, cast

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.idempotency import IDEMPOTENCY_KEY, once_per_key
from apps.clusters.queries import cluster_for
from apps.plans import services
from apps.plans.models import Plan
from apps.plans.queries import compare_with_now, plan_for, plans_for
from apps.plans.serializers import (
    ComparisonSerializer,
    PlanDetailSerializer,
    PlanRequestSerializer,
    PlanSerializer,
    RejectionSerializer,
    RevisionSerializer,
    WithdrawalSerializer,
)
from apps.plans.services.changing import require_version
from apps.plans.states import PlanState


class PlanFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="cluster__name")
    state = django_filters.MultipleChoiceFilter(choices=PlanState.choices)
    created_by = django_filters.CharFilter(field_name="created_by__username")

    class Meta:
        model = Plan
        fields: list[str] = []


class PlanViewSet(ReadOnlyModelViewSet):
    queryset = Plan.objects.none()
    serializer_class = PlanSerializer
    filterset_class = PlanFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, OrderingFilter]
    ordering_fields = ["id", "created_at", "expires_at", "state"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Plan]:
        return plans_for(self.request.user)

    @extend_schema(responses=PlanDetailSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response(PlanDetailSerializer(self._plan()).data)

    @extend_schema(
        request=PlanRequestSerializer, responses={201: PlanDetailSerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    @once_per_key
    def create(self, request: Request) -> Response:
        """Ask for a plan. It is a draft until its version is computed; then propose it."""
        wanted = _checked(PlanRequestSerializer, request)
        cluster = cluster_for(request.user, wanted.pop("cluster"))
        plan = services.request_plan(actor=cast(Any, request.user), cluster=cluster, **wanted)
        return Response(PlanDetailSerializer(plan).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=PlanDetailSerializer)
    @action(detail=True, methods=["post"])
    def propose(self, request: Request, pk: str) -> Response:
        """Put the draft up for somebody else's decision."""
        return _told(services.propose_plan(plan_id=self._plan().pk, actor=cast(Any, request.user)))

    @extend_schema(request=RevisionSerializer, responses=PlanDetailSerializer)
    @action(detail=True, methods=["post"])
    def revise(self, request: Request, pk: str) -> Response:
        """Change the request: the next version is computed, and whatever was decided is void."""
        wishes = _checked(RevisionSerializer, request)
        return _told(services.revise_plan(plan_id=self._plan().pk, actor=cast(Any, request.user), **wishes))

    @extend_schema(request=RejectionSerializer, responses=PlanDetailSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Refuse the version with this digest, for good."""
        words = _checked(RejectionSerializer, request)
        return _told(services.reject_plan(plan_id=self._plan().pk, approver=cast(Any, request.user), **words))

    @extend_schema(request=WithdrawalSerializer, responses=PlanDetailSerializer)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Take one's own plan back before it begins."""
        words = _checked(WithdrawalSerializer, request)
        return _told(services.withdraw_plan(plan_id=self._plan().pk, actor=cast(Any, request.user), **words))

    @extend_schema(
        request=None, responses={403: OpenApiResponse(description="Always: approval happens in the browser.")}
    )
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Always refused: a person approves in the browser, having looked, after a recent login."""
        raise PermissionDenied(
            f"Plans are approved in the browser only, by a person who looks: open /plans/{self._plan().pk}/"
        )

    @extend_schema(responses=ComparisonSerializer)
    @action(detail=True)
    def comparison(self, request: Request, pk: str) -> Response:
        """Whether the current version still fits the newest snapshot, and if not, what changed."""
        return Response(ComparisonSerializer(compare_with_now(require_version(self._plan()))).data)

    def _plan(self) -> Plan:
        return plan_for(self.request.user, int(self.kwargs["pk"]))


def _checked(kind: type[Any], request: Request) -> dict[str, Any]:
    parsed = kind(data=request.data)
    parsed.is_valid(raise_exception=True)
    return parsed.validated_data


def _told(plan: Plan) -> Response:
    return Response(PlanDetailSerializer(plan).data)
