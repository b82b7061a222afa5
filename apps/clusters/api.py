"""Clusters, snapshots and nodes over REST. Read only: clusters are registered by command and page."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet, ReadOnlyModelViewSet

from apps.accounts.moments import MomentFilter
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.node_facts import as_time, node_detail, node_summary
from apps.clusters.queries import cluster_for, latest_snapshot, open_snapshot, visible_clusters
from apps.clusters.serializers import (
    ClusterSerializer,
    NodeDetailSerializer,
    NodeSerializer,
    SnapshotSerializer,
)
from apps.planner.snapshot import Snapshot as Picture

CLUSTER = OpenApiParameter("cluster", str, required=True, description="name of the cluster")


def cluster_asked(request: Request) -> Cluster:
    """The cluster that `?cluster=` names. Raises a 422 without one and a 404 for one that is not visible."""
    name = request.query_params.get("cluster", "")
    if not name or "\x00" in name:
        raise ValidationError({"cluster": ["name the cluster: ?cluster=NAME"]})
    return cluster_for(request.user, name)


def picture_asked(request: Request) -> tuple[Cluster, Picture]:
    """The cluster and its newest snapshot, opened."""
    cluster = cluster_asked(request)
    row = latest_snapshot(cluster)
    if row is None:
        raise NotFound(f"no snapshot of {cluster.name} is known yet: check that it is being watched")
    return cluster, open_snapshot(row)


class ClusterViewSet(ReadOnlyModelViewSet):
    queryset = Cluster.objects.none()
    serializer_class = ClusterSerializer
    lookup_field = "name"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends = [OrderingFilter]
    ordering_fields = ["name", "watched_at"]

    def get_queryset(self) -> QuerySet[Cluster]:
        return visible_clusters(self.request.user)


class SnapshotFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="cluster__name")
    since = MomentFilter(field_name="taken_at", lookup_expr="gte")
    until = MomentFilter(field_name="taken_at", lookup_expr="lt")

    class Meta:
        model = Snapshot
        fields: list[str] = []


class SnapshotViewSet(ReadOnlyModelViewSet):
    queryset = Snapshot.objects.none()
    serializer_class = SnapshotSerializer
    filterset_class = SnapshotFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, OrderingFilter]
    ordering_fields = ["id", "taken_at"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Snapshot]:
        found = Snapshot.objects.filter(cluster__in=visible_clusters(self.request.user))
        return found.select_related("cluster").defer("body")


class NodeViewSet(GenericViewSet):
    """Nodes of the newest snapshot of one cluster."""

    queryset = Cluster.objects.none()
    serializer_class = NodeSerializer
    filter_backends: list[Any] = []
    lookup_url_kwarg = "name"
    lookup_value_regex = r"[-.a-z0-9]{1,253}"

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("pool", str, description="only nodes of this pool"),
            OpenApiParameter("model", str, description="only nodes with this GPU model"),
            OpenApiParameter("has_gpus", bool, description="true leaves nodes without GPUs out"),
        ]
    )
    def list(self, request: Request) -> Response:
        _, picture = picture_asked(request)
        wanted = {key: request.query_params.get(key) for key in ("pool", "model")}
        has_gpus = request.query_params.get("has_gpus", "").lower() in ("true", "1")
        nodes = [
            node
            for _, node in sorted(picture.nodes.items())
            if all(value is None or getattr(node, key) == value for key, value in wanted.items())
            and (node.gpus or not has_gpus)
        ]
        page = self.paginate_queryset(nodes) or []
        rows = [node_summary(picture, node) for node in page]
        return self.get_paginated_response(NodeSerializer(rows, many=True).data)

    @extend_schema(
        parameters=[CLUSTER, OpenApiParameter("name", str, OpenApiParameter.PATH)],
        responses=NodeDetailSerializer,
    )
    def retrieve(self, request: Request, name: str) -> Response:
        cluster, picture = picture_asked(request)
        node = picture.nodes.get(name)
        if node is None:
            raise NotFound(f"{cluster.name} has no node {name!r} in its newest snapshot")
        facts = {**node_detail(picture, node), "cluster": cluster.name, "as_of": as_time(picture.taken_at)}
        return Response(NodeDetailSerializer(facts).data)
