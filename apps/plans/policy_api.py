"""Policies over REST, one for each cluster: parse, call one service, answer.

They are edited in the browser's session: no token has a scope for it. Throwing the kill switch takes a token
that may control executions; releasing it takes an admin in the browser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import ETAG, IF_MATCH, IF_MATCH_OPTIONAL, require_match, tag_of
from apps.accounts.limits import Scope
from apps.accounts.ordering import Ordering
from apps.clusters.models import Cluster
from apps.plans import services
from apps.plans.errors import InvalidPolicy
from apps.plans.models import ClusterPolicy
from apps.plans.policies import policy_of, visible_clusters_with_policies
from apps.plans.policy_serializers import (
    PolicySerializer,
    PolicyWishesSerializer,
    ReleaseSerializer,
    StopSerializer,
    policy_among,
)


class PolicyViewSet(GenericViewSet):
    """Policies of the clusters that you see, by the cluster's name."""

    queryset = Cluster.objects.none()
    serializer_class = PolicySerializer
    lookup_field = "name"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends = [Ordering]
    ordering_fields = ["name"]
    scopes = {"stop": Scope.CONTROL}
    rates = dict.fromkeys(["update", "partial_update", "stop", "release"], "deciding")

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters_with_policies(self.request.user)

    @extend_schema(responses=PolicySerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster, also where nothing is limited."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        policies = [policy_among(cluster) for cluster in page]
        return self.get_paginated_response(PolicySerializer(policies, many=True).data)

    @extend_schema(parameters=[ETAG], responses=PolicySerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """The policy of one cluster. Its ETag is for If-Match: another one with every change."""
        return _told(policy_among(self.get_object()))

    @extend_schema(request=PolicyWishesSerializer, responses=PolicySerializer, parameters=[IF_MATCH, ETAG])
    def update(self, request: Request, name: str) -> Response:
        """Replace limits, windows and protections; what is left out is none. For admins, in the browser."""
        return self._change(services.change_policy, PolicyWishesSerializer(data=request.data))

    @extend_schema(request=PolicyWishesSerializer, responses=PolicySerializer, parameters=[IF_MATCH, ETAG])
    def partial_update(self, request: Request, name: str) -> Response:
        """Change what is named. For its admins, in the browser."""
        wishes = PolicyWishesSerializer(data=request.data, partial=True)
        return self._change(services.change_policy, wishes)

    @extend_schema(request=StopSerializer, responses=PolicySerializer, parameters=[IF_MATCH_OPTIONAL, ETAG])
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, name: str) -> Response:
        """The kill switch: no new effect on the cluster from the next look on. For operators and admins."""
        return self._change(services.stop_cluster, StopSerializer(data=request.data))

    @extend_schema(
        request=ReleaseSerializer, responses=PolicySerializer, parameters=[IF_MATCH_OPTIONAL, ETAG]
    )
    @action(detail=True, methods=["post"])
    def release(self, request: Request, name: str) -> Response:
        """Switch it off again; paused executions wait for an operator. For admins, in the browser."""
        return self._change(services.release_cluster, ReleaseSerializer(data=request.data))

    def _change(self, service: Callable[..., ClusterPolicy], parsed: Any) -> Response:
        cluster = self.get_object()
        parsed.is_valid(raise_exception=True)
        is_edit = service is services.change_policy
        facts = {"wishes": parsed.validated_data} if is_edit else parsed.validated_data

        def check(row: ClusterPolicy) -> None:
            require_match(self.request, _tag(row), is_needed=is_edit)

        check(policy_of(cluster))
        try:
            return _told(service(actor=self.request.user, cluster=cluster, check=check, **facts))
        except InvalidPolicy as error:
            raise ValidationError({error.field: [str(error)]}) from error


def _tag(policy: ClusterPolicy) -> str:
    return tag_of("policy", policy.cluster_id, policy.version)


def _told(policy: ClusterPolicy) -> Response:
    return Response(PolicySerializer(policy).data, headers={"ETag": _tag(policy)})
