"""Placement policies and verdicts over REST: parse, call one service, answer.

Policies are edited in the browser's session: no token has a scope for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet, ReadOnlyModelViewSet

from apps.accounts.conditions import ETAG, IF_MATCH, require_match, tag_of
from apps.accounts.moments import MomentFilter
from apps.accounts.ordering import Ordering
from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.clusters.models import Cluster
from apps.clusters.queries import latest_snapshot, open_snapshot
from apps.placing import services
from apps.placing.addresses import url_prefix_of
from apps.placing.configuration import Shown, show_configuration
from apps.placing.errors import InvalidPlacement
from apps.placing.models import PlacementPolicy, Verdict
from apps.placing.queries import (
    device_resources,
    placement_policy_of,
    verdicts_for,
    visible_clusters_with_placement,
)
from apps.placing.serializers import (
    PlacementPolicySerializer,
    PlacementVerdictSerializer,
    PlacementWishesSerializer,
    SchedulerConfigurationSerializer,
)


class PlacementPolicyViewSet(GenericViewSet):
    """The extender's policies of the clusters that you see, by the cluster's name."""

    queryset = Cluster.objects.none()
    serializer_class = PlacementPolicySerializer
    lookup_field = "name"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends = [Ordering]
    ordering_fields = ["name"]
    rates = dict.fromkeys(["update", "partial_update", "renew_address"], "deciding")

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters_with_placement(self.request.user)

    @extend_schema(responses=PlacementPolicySerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster, also where nobody has set any: then its defaults."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        policies = [policy_among(cluster) for cluster in page]
        return self.get_paginated_response(PlacementPolicySerializer(policies, many=True).data)

    @extend_schema(parameters=[ETAG], responses=PlacementPolicySerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """The policy of one cluster's extender. Its ETag is for If-Match: another one with every change."""
        return _told(policy_among(self.get_object()))

    @extend_schema(
        request=PlacementWishesSerializer, responses=PlacementPolicySerializer, parameters=[IF_MATCH, ETAG]
    )
    def update(self, request: Request, name: str) -> Response:
        """Replace it; what is left out gets its default. For admins, in the browser."""
        return self._change(PlacementWishesSerializer(data=request.data))

    @extend_schema(
        request=PlacementWishesSerializer, responses=PlacementPolicySerializer, parameters=[IF_MATCH, ETAG]
    )
    def partial_update(self, request: Request, name: str) -> Response:
        """Change what is named. For admins, in the browser."""
        return self._change(PlacementWishesSerializer(data=request.data, partial=True))

    @extend_schema(request=None, responses=PlacementPolicySerializer, parameters=[IF_MATCH, ETAG])
    @action(detail=True, methods=["post"], url_path="renew-address")
    def renew_address(self, request: Request, name: str) -> Response:
        """A new secret in the extender's address: paste the configuration anew. For admins."""
        cluster = self.get_object()
        policy = services.renew_address(
            actor=cast(Any, request.user), cluster=cluster, check=self._matched(placement_policy_of(cluster))
        )
        return _told(policy)

    @extend_schema(responses=SchedulerConfigurationSerializer)
    @action(
        detail=True, url_path="scheduler-configuration", serializer_class=SchedulerConfigurationSerializer
    )
    def scheduler_configuration(self, request: Request, name: str) -> Response:
        """The KubeSchedulerConfiguration that makes this cluster's kube-scheduler ask the extender."""
        cluster = self.get_object()
        is_browser = request.auth is None
        shown = configuration_for(
            cluster, shows_secret=is_browser and may(request.user, Action.ADMINISTER, cluster)
        )
        body = SchedulerConfigurationSerializer(shown).data
        return Response(body, headers={"Cache-Control": "no-store"})

    def _change(self, parsed: Any) -> Response:
        cluster = self.get_object()
        parsed.is_valid(raise_exception=True)
        try:
            policy = services.change_placement_policy(
                actor=cast(Any, self.request.user),
                cluster=cluster,
                wishes=parsed.validated_data,
                check=self._matched(placement_policy_of(cluster)),
            )
        except InvalidPlacement as error:
            raise ValidationError({error.field: [str(error)]}) from error
        return _told(policy)

    def _matched(self, known: PlacementPolicy) -> Callable[[PlacementPolicy], None]:
        def check(row: PlacementPolicy) -> None:
            require_match(self.request, _tag(row))

        check(known)
        return check


class VerdictFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="cluster__name")
    pod = django_filters.CharFilter(field_name="pod_key", help_text="namespace/name")
    pod_uid = django_filters.CharFilter()
    verb = django_filters.MultipleChoiceFilter(choices=Verdict._meta.get_field("verb").choices)
    since = MomentFilter(field_name="at", lookup_expr="gte")
    until = MomentFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = Verdict
        fields: list[str] = []


class VerdictViewSet(ReadOnlyModelViewSet):
    """What the extender answered about pods of the clusters that you see, newest first."""

    queryset = Verdict.objects.none()
    serializer_class = PlacementVerdictSerializer
    filterset_class = VerdictFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Verdict]:
        return verdicts_for(self.request.user)


def policy_among(cluster: Cluster) -> PlacementPolicy:
    """Of a cluster that was read with its policy."""
    return getattr(cluster, "placement_policy", None) or PlacementPolicy(cluster=cluster)


def configuration_for(cluster: Cluster, *, shows_secret: bool) -> Shown:
    policy, row = placement_policy_of(cluster), latest_snapshot(cluster)
    resources = device_resources(open_snapshot(row)) if row is not None else []
    return show_configuration(policy, url_prefix_of(policy, shows_secret=shows_secret), resources)


def _tag(policy: PlacementPolicy) -> str:
    return tag_of("placement", policy.cluster_id, policy.version)


def _told(policy: PlacementPolicy) -> Response:
    return Response(PlacementPolicySerializer(policy).data, headers={"ETag": _tag(policy)})
