"""Preflights of clusters and shadow mode over REST: parse, call one service or query, answer.

Shadow mode is switched in the browser's session: no token has a scope for it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.limits import Scope
from apps.accounts.ordering import Ordering
from apps.accounts.sessions import require_recent_login
from apps.accounts.strict import checked
from apps.clusters.models import Cluster
from apps.clusters.queries import visible_clusters
from apps.executions import safe_mode
from apps.executions.cluster_preflight import keeping
from apps.executions.cluster_preflight.lines import line_to_dict
from apps.executions.cluster_switch import ban_of_switch
from apps.executions.console_standing import known_of
from apps.executions.shadow.standing import why_shadow
from apps.executions.shadow.switching import set_shadow
from apps.executions.shadow.telling import predictions_of, sum_shadow
from apps.executions.trust_serializers import (
    LeaveSafeModeSerializer,
    PredictionSerializer,
    PreflightSerializer,
    ShadowSerializer,
    ShadowWishSerializer,
)


class OfClusters(GenericViewSet):
    queryset = Cluster.objects.none()
    lookup_field = "name"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends = [Ordering]
    ordering_fields = ["name"]

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters(self.request.user)


class PreflightViewSet(OfClusters):
    """What can be carried out on the clusters that you see, by the cluster's name."""

    serializer_class = PreflightSerializer
    scopes = {"look": Scope.CONTROL}
    rates = {"look": "operating", "leave_safe_mode": "deciding"}

    @extend_schema(responses=PreflightSerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster, also where nobody has looked yet."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response([_told(cluster) for cluster in page])

    @extend_schema(responses=PreflightSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """What was found, what it means and what to do."""
        return Response(_told(self.get_object()))

    @extend_schema(request=None, responses={202: PreflightSerializer})
    @action(detail=True, methods=["post"])
    def look(self, request: Request, name: str) -> Response:
        """Look again soon. For operators and admins."""
        cluster = self.get_object()
        keeping.request_look(actor=cast(Any, request.user), cluster=cluster)
        return Response(_told(cluster), status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=LeaveSafeModeSerializer, responses=PreflightSerializer)
    @action(detail=True, methods=["post"], url_path="leave-safe-mode")
    def leave_safe_mode(self, request: Request, name: str) -> Response:
        """Go on although this database is older than the cluster. For its admins, by a recent login in the
        browser, after seeing what the cluster carries that is not known here (409 if it changed since)."""
        cluster = self.get_object()
        wanted = checked(LeaveSafeModeSerializer, request)
        require_recent_login(request, "leave safe mode")
        safe_mode.leave(actor=request.user, cluster=cluster, seen=wanted["seen"], reason=wanted["reason"])
        return Response(_told(cluster))


class ShadowViewSet(OfClusters):
    """What would have been on clusters in shadow: plans that were made and compared, never started."""

    serializer_class = ShadowSerializer
    rates = {"partial_update": "deciding"}

    @extend_schema(responses=ShadowSerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster that you see; in shadow are those that say why."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response([_sums(cluster) for cluster in page])

    @extend_schema(responses=ShadowSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """The sums of the last days."""
        return Response(_sums(self.get_object()))

    @extend_schema(request=ShadowWishSerializer, responses=ShadowSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        """Put the cluster into shadow or take it out of it. For its admins, in the browser."""
        wanted = checked(ShadowWishSerializer, request)
        cluster = self.get_object()
        is_shadow = wanted.get("is_shadow", cluster.is_shadow)
        cluster = set_shadow(actor=request.user, cluster_id=cluster.pk, is_shadow=is_shadow)
        return Response(_sums(cluster))

    @extend_schema(responses=PredictionSerializer(many=True))
    @action(detail=True, serializer_class=PredictionSerializer, filter_backends=[])
    def predictions(self, request: Request, name: str) -> Response:
        """The predictions, newest first."""
        page = self.paginate_queryset(predictions_of(self.get_object())) or []
        return self.get_paginated_response(PredictionSerializer(page, many=True).data)


def _told(cluster: Cluster) -> dict[str, Any]:
    row = keeping.preflight_of(cluster)
    facts = {name: getattr(row, name) for name in ("looked_at", "tried_at", "error")}
    facts["lines"] = [line_to_dict(line) for line in keeping.lines_of(row)]
    facts |= {"cluster": cluster.name, "shadow": why_shadow(cluster)}
    ban = ban_of_switch(cluster)
    facts |= {"switch": ban.sentence if ban is not None else "", "console": known_of(cluster)}
    return dict(PreflightSerializer({**facts, "safe_mode": _tell_safe_mode(cluster)}).data)


def _tell_safe_mode(cluster: Cluster) -> dict[str, Any] | None:
    row = safe_mode.row_in_safe_mode(cluster)
    if row is None:
        return None
    facts = {"since": row.safe_since, "reason": row.safe_reason, "found": row.safe_found}
    return {**facts, "looked_at": row.safe_looked_at, "seen": safe_mode.mark_of(row.safe_found)}


def _sums(cluster: Cluster) -> dict[str, Any]:
    facts = {"cluster": cluster.name, "shadow": why_shadow(cluster), **asdict(sum_shadow(cluster))}
    return dict(ShadowSerializer(facts).data)
