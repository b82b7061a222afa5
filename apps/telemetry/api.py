"""Telemetry over REST: what was measured of each GPU, and where a cluster's telemetry is read from."""

from __future__ import annotations

import hashlib
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, ETAG, IF_MATCH, require_match, tag_of, unchanged
from apps.accounts.parameters import plain_text
from apps.accounts.strict import checked
from apps.clusters.api import CLUSTER, facts_tag, snapshot_asked
from apps.clusters.models import Cluster
from apps.clusters.queries import cluster_for, open_snapshot
from apps.clusters.reading_serializers import DeviceReadingSerializer
from apps.telemetry import services
from apps.telemetry.models import Source
from apps.telemetry.queries import devices_on, open_telemetry
from apps.telemetry.rows import device_row
from apps.telemetry.serializers import SourceRequestSerializer, SourceSerializer

NAME = OpenApiParameter("cluster", str, OpenApiParameter.PATH, pattern="^[-a-zA-Z0-9_]{1,63}$")


class TelemetryViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = DeviceReadingSerializer
    lookup_url_kwarg = "cluster"
    lookup_value_regex = r"[-a-zA-Z0-9_]{1,63}"
    filter_backends: list[Any] = []

    @extend_schema(
        parameters=[CLUSTER, OpenApiParameter("node", str, description="only of this node"), *CONDITIONAL]
    )
    def list(self, request: Request) -> Response:
        """Each GPU of the newest snapshot as it was measured last, by node and index."""
        cluster, row = snapshot_asked(request)
        name = plain_text(request, "node")
        telemetry = open_telemetry(cluster)
        tag = tag_of(facts_tag(request, row), telemetry.taken_at if telemetry else "")
        if same := unchanged(request, tag):
            return same
        nodes = sorted(open_snapshot(row).nodes.items())
        pairs = [(node, gpu) for _, node in nodes if name in ("", node.name) for gpu in devices_on(node)]
        page = [device_row(telemetry, node, gpu) for node, gpu in self.paginate_queryset(pairs) or []]
        answer = self.get_paginated_response(DeviceReadingSerializer(page, many=True).data)
        answer["ETag"] = tag
        return answer

    @extend_schema(parameters=[NAME, ETAG], responses=SourceSerializer)
    def retrieve(self, request: Request, cluster: str) -> Response:
        """Where the telemetry of this cluster is read from, and how that goes."""
        return _told(cluster_for(request.user, cluster))

    @extend_schema(
        request=SourceRequestSerializer, responses=SourceSerializer, parameters=[NAME, IF_MATCH, ETAG]
    )
    def update(self, request: Request, cluster: str) -> Response:
        """Read it from another Prometheus, which must answer. For the cluster's admins, in the browser."""
        wanted = checked(SourceRequestSerializer, request)
        place = cluster_for(request.user, cluster)

        def check(row: Cluster) -> None:
            require_match(request, _tag(row))

        check(place)
        services.connect_prometheus(
            actor=request.user,
            cluster_id=place.pk,
            address=wanted["address"],
            token=wanted.get("token"),
            ca_certificate=wanted.get("ca_certificate"),
            check=check,
        )
        return _told(place)


def _tag(cluster: Cluster) -> str:
    source = Source.objects.filter(cluster=cluster).first()
    if source is None:
        return tag_of(cluster.pk, "")
    secret = hashlib.sha256(f"{source.credential} {source.ca_certificate}".encode()).hexdigest()
    return tag_of(cluster.pk, source.address, secret)


def _told(cluster: Cluster) -> Response:
    source = Source.objects.filter(cluster=cluster).first() or Source(cluster=cluster)
    facts = {
        "cluster": cluster.name,
        "address": source.address,
        "has_token": bool(source.credential),
        "read_at": source.read_at,
        "error": source.error,
        "failed_at": source.failed_at,
        "warnings": source.warnings,
    }
    return Response(SourceSerializer(facts).data, headers={"ETag": _tag(cluster)})
