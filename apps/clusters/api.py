"""Clusters and snapshots over REST: parse, call one service or query, answer. Nodes: `node_api`.

Clusters are looked after in the browser's session: no token has a scope for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.conditions import CONDITIONAL, ETAG, IF_MATCH, require_match, tag_of, unchanged
from apps.accounts.idempotency import IDEMPOTENCY_KEY, once_per_key
from apps.accounts.moments import MomentFilter
from apps.accounts.ordering import Ordering
from apps.accounts.strict import checked
from apps.clusters import services
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import (
    cluster_for,
    latest_snapshot,
    protected_namespaces,
    visible_clusters,
)
from apps.clusters.serializers import (
    ClusterChangeSerializer,
    ClusterRequestSerializer,
    ClusterSerializer,
    CredentialSerializer,
    SnapshotSerializer,
)

CLUSTER = OpenApiParameter(
    "cluster",
    {"type": "string", "pattern": "^[-a-zA-Z0-9_]{1,63}$"},
    required=True,
    description="name of the cluster",
)


def cluster_asked(request: Request) -> Cluster:
    """The cluster that `?cluster=` names. Raises a 422 without one and a 404 for one that is not visible."""
    name = request.query_params.get("cluster", "")
    if not name or "\x00" in name:
        raise ValidationError({"cluster": ["name the cluster: ?cluster=NAME"]})
    return cluster_for(request.user, name)


def snapshot_asked(request: Request) -> tuple[Cluster, Snapshot]:
    """The cluster and the row of its newest snapshot, which is not opened yet."""
    cluster = cluster_asked(request)
    row = latest_snapshot(cluster)
    if row is None:
        raise NotFound(f"no snapshot of {cluster.name} is known yet: check that it is being watched")
    return cluster, row


def facts_tag(request: Request, row: Snapshot) -> str:
    """ETag of an answer that follows from a snapshot's facts and what is protected, not from when they were
    seen."""
    return tag_of(row.digest, row.cluster_id, protected_namespaces(row.cluster_id), request.get_full_path())


class ClusterViewSet(ReadOnlyModelViewSet):
    """Clusters that you see, by name. Credentials are never told."""

    queryset = Cluster.objects.none()
    serializer_class = ClusterSerializer
    lookup_field = "name"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends = [Ordering]
    ordering_fields = ["name", "watched_at"]

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters(self.request.user)

    @extend_schema(parameters=[ETAG], responses=ClusterSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """One cluster. Its ETag is for If-Match: it stands for what can be edited, not for what is seen."""
        return _told(self.get_object())

    @extend_schema(
        request=ClusterRequestSerializer, responses={201: ClusterSerializer}, parameters=[IDEMPOTENCY_KEY]
    )
    @once_per_key
    def create(self, request: Request) -> Response:
        """Register a cluster, which must answer. For admins of the whole console, in the browser."""
        wanted = checked(ClusterRequestSerializer, request)
        cluster = services.register_cluster(actor=request.user, **wanted)
        return Response(ClusterSerializer(cluster).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ClusterChangeSerializer, responses=ClusterSerializer, parameters=[IF_MATCH, ETAG])
    def partial_update(self, request: Request, name: str) -> Response:
        """Stop or start watching it. For its admins, in the browser."""
        facts = checked(ClusterChangeSerializer, request, partial=True)
        return self._change(services.set_cluster_active, {"is_active": None, **facts})

    @extend_schema(request=CredentialSerializer, responses=ClusterSerializer, parameters=[IF_MATCH, ETAG])
    @action(detail=True, methods=["put"])
    def credential(self, request: Request, name: str) -> Response:
        """Replace the stored credential, write-only; the same cluster must answer. For its admins, in the
        browser."""
        wanted = checked(CredentialSerializer, request)
        facts = {"kubeconfig": wanted["kubeconfig"], "rebuilt": wanted["is_rebuilt"]}
        return self._change(services.replace_credentials, facts)

    def _change(self, service: Callable[..., Cluster], facts: dict[str, Any]) -> Response:
        cluster = self.get_object()

        def check(row: Cluster) -> None:
            require_match(self.request, _tag(row))

        check(cluster)
        return _told(service(actor=self.request.user, cluster_id=cluster.pk, check=check, **facts))


def _tag(cluster: Cluster) -> str:
    credential = hashlib.sha256(cluster.credential.encode()).hexdigest()
    return tag_of(cluster.pk, cluster.name, cluster.server, cluster.is_active, credential)


def _told(cluster: Cluster) -> Response:
    return Response(ClusterSerializer(cluster).data, headers={"ETag": _tag(cluster)})


class SnapshotFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="cluster__name")
    since = MomentFilter(field_name="taken_at", lookup_expr="gte")
    until = MomentFilter(field_name="taken_at", lookup_expr="lt")

    class Meta:
        model = Snapshot
        fields: list[str] = []


class SnapshotViewSet(ReadOnlyModelViewSet):
    """Pictures of the clusters that you see, the newest first."""

    queryset = Snapshot.objects.none()
    serializer_class = SnapshotSerializer
    filterset_class = SnapshotFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "taken_at"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Snapshot]:
        found = Snapshot.objects.filter(cluster__in=visible_clusters(self.request.user))
        return found.select_related("cluster").defer("body")

    @extend_schema(parameters=CONDITIONAL, responses=SnapshotSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One snapshot: its facts never change, only the time until which they held."""
        row = self.get_object()
        tag = tag_of(row.pk, row.digest, row.taken_at)
        return unchanged(request, tag) or Response(SnapshotSerializer(row).data, headers={"ETag": tag})
