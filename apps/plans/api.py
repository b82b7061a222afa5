"""Plans over REST: parse, call one service or query, answer. Approval is not here: it needs a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.conditions import (
    CONDITIONAL,
    ETAG,
    IF_MATCH,
    IF_MATCH_OPTIONAL,
    require_match,
    tag_of,
    unchanged,
)
from apps.accounts.idempotency import IDEMPOTENCY_KEY, once_per_key
from apps.accounts.limits import Scope
from apps.accounts.ordering import Ordering
from apps.accounts.strict import checked
from apps.clusters.queries import cluster_for
from apps.plans import services
from apps.plans.models import Plan
from apps.plans.queries import compare_with_now, current_version, execution_state_of, plan_for, plans_for
from apps.plans.serializers import (
    ComparisonSerializer,
    PlanDetailSerializer,
    PlanRequestSerializer,
    PlanSerializer,
    ProposalSerializer,
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
    """Plans for the clusters that you see, the newest first."""

    queryset = Plan.objects.none()
    serializer_class = PlanSerializer
    filterset_class = PlanFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "created_at", "expires_at", "state"]
    scopes = dict.fromkeys(["create", "stop", "propose", "revise", "reject", "withdraw"], Scope.PLAN)
    rates = {"create": "planning", "revise": "planning"} | dict.fromkeys(
        ["stop", "propose", "reject", "withdraw", "approve"], "deciding"
    )
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Plan]:
        return plans_for(self.request.user).prefetch_related("executions")

    @extend_schema(responses=PlanDetailSerializer, parameters=CONDITIONAL)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One plan with its current version and every decision."""
        plan = self._plan()
        return unchanged(request, _tag(plan)) or _told(plan)

    @extend_schema(
        request=PlanRequestSerializer,
        responses={201: PlanDetailSerializer},
        parameters=[IDEMPOTENCY_KEY],
        examples=[
            OpenApiExample(
                "Free whole nodes",
                value={"cluster": "gpu-east", "goal": "free-nodes", "max_moves": 20},
                request_only=True,
            ),
            OpenApiExample(
                "Let one gang start",
                value={"cluster": "gpu-east", "goal": "unlock", "workload": "ml/llama-70b"},
                request_only=True,
            ),
        ],
    )
    @once_per_key
    def create(self, request: Request) -> Response:
        """Ask for a plan. It is a draft until its version is computed; then propose it."""
        wanted = checked(PlanRequestSerializer, request)
        cluster = cluster_for(request.user, wanted.pop("cluster"))
        plan = services.request_plan(actor=cast(Any, request.user), cluster=cluster, **wanted)
        return Response(PlanDetailSerializer(plan).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=PlanDetailSerializer, parameters=[IF_MATCH_OPTIONAL, ETAG])
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        """End the search and keep the best plan found so far, with its honest gap; to have none, withdraw."""
        return self._change(services.stop_search, {"actor": request.user})

    @extend_schema(
        request=ProposalSerializer, responses=PlanDetailSerializer, parameters=[IF_MATCH_OPTIONAL, ETAG]
    )
    @action(detail=True, methods=["post"])
    def propose(self, request: Request, pk: str) -> Response:
        """Put the draft up for somebody else's decision."""
        words = checked(ProposalSerializer, request)
        return self._change(services.propose_plan, {"actor": request.user, **words})

    @extend_schema(request=RevisionSerializer, responses=PlanDetailSerializer, parameters=[IF_MATCH, ETAG])
    @action(detail=True, methods=["post"])
    def revise(self, request: Request, pk: str) -> Response:
        """Change the request: the next version is computed, and whatever was decided is void."""
        wishes = checked(RevisionSerializer, request)
        return self._change(services.revise_plan, {"actor": request.user, **wishes}, is_needed=True)

    @extend_schema(
        request=RejectionSerializer, responses=PlanDetailSerializer, parameters=[IF_MATCH_OPTIONAL, ETAG]
    )
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Refuse the version with this digest, for good."""
        words = checked(RejectionSerializer, request)
        return self._change(services.reject_plan, {"approver": request.user, **words})

    @extend_schema(
        request=WithdrawalSerializer, responses=PlanDetailSerializer, parameters=[IF_MATCH_OPTIONAL, ETAG]
    )
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Take one's own plan back before it begins."""
        words = checked(WithdrawalSerializer, request)
        return self._change(services.withdraw_plan, {"actor": request.user, **words})

    @extend_schema(
        request=None, responses={403: OpenApiResponse(description="Always: approval happens in the browser.")}
    )
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Always refused: a person approves in the browser, having looked, after a recent login."""
        plan = self._plan()
        page = f"/clusters/{plan.cluster.name}/plans/{plan.pk}/"
        raise PermissionDenied(f"Plans are approved in the browser only, by a person who looks: open {page}")

    @extend_schema(responses=ComparisonSerializer)
    @action(detail=True)
    def comparison(self, request: Request, pk: str) -> Response:
        """Whether the current version still fits the newest snapshot, and if not, what changed."""
        return Response(ComparisonSerializer(compare_with_now(require_version(self._plan()))).data)

    def _change(
        self, service: Callable[..., Plan], facts: dict[str, Any], *, is_needed: bool = False
    ) -> Response:
        """One decision, on the plan as the caller has seen it, if he says so (or must say so)."""
        plan = self._plan()

        def check(row: Plan) -> None:
            require_match(self.request, _tag(row), is_needed=is_needed)

        check(plan)
        return _told(service(plan_id=plan.pk, check=check, **facts))

    def _plan(self) -> Plan:
        return plan_for(self.request.user, int(self.kwargs["pk"]))


def _tag(plan: Plan) -> str:
    """Another one with every change of what a plan tells."""
    version = current_version(plan)
    facts = (plan.pk, plan.title, plan.state, plan.state_reason, plan.version_number, plan.begun_at)
    return tag_of(
        *facts,
        plan.proposed_at,
        plan.expires_at,
        version.digest if version else None,
        plan.search,
        plan.computing_since,
        plan.stop_asked_at,
        execution_state_of(plan),
    )


def _told(plan: Plan) -> Response:
    return Response(PlanDetailSerializer(plan).data, headers={"ETag": _tag(plan)})
