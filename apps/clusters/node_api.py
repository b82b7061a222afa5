"""Nodes and GPUs over REST, from the newest snapshot of one cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, tag_of, unchanged
from apps.accounts.ordering import ordered, ordering_parameter
from apps.accounts.parameters import plain_text, whole_number, yes_or_no
from apps.clusters.api import CLUSTER, facts_tag, snapshot_asked
from apps.clusters.device_facts import as_time
from apps.clusters.gpu_facts import STATES, gpu_row, gpus_of
from apps.clusters.models import Cluster
from apps.clusters.node_facts import node_detail, node_summary
from apps.clusters.queries import open_snapshot
from apps.clusters.serializers import GpuRowSerializer, NodeDetailSerializer, NodeSerializer

NODE_ORDER = [
    *("name", "pool", "model", "rack"),
    *("gpus_physical", "gpus_schedulable", "gpus_allocated", "gpus_free", "gpus_stranded"),
]
GPU_ORDER = ["node", "index", "pool", "model", "state", "memory_mib"]
POOL = OpenApiParameter("pool", str, description="only of this pool")
MODEL = OpenApiParameter("model", str, description="only of this GPU model")


class _RowsViewSet(GenericViewSet):
    """What a snapshot tells, row by row. Without an order to make, only the page's rows are computed."""

    queryset = Cluster.objects.none()
    filter_backends: list[Any] = []

    def page_of(self, things: list[Any], row: Callable[[Any], dict[str, Any]], order: list[str]) -> Response:
        if self.request.query_params.get("ordering"):
            rows = self.paginate_queryset(ordered(self.request, [row(one) for one in things], order)) or []
        else:
            rows = [row(one) for one in self.paginate_queryset(things) or []]
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)


class NodeViewSet(_RowsViewSet):
    """Nodes of the newest snapshot of one cluster."""

    serializer_class = NodeSerializer
    lookup_url_kwarg = "name"
    lookup_value_regex = r"[-.a-z0-9]{1,253}"

    @extend_schema(
        parameters=[
            CLUSTER,
            POOL,
            MODEL,
            OpenApiParameter("has_gpus", bool, description="true: only nodes with GPUs; false: without"),
            ordering_parameter(NODE_ORDER),
            *CONDITIONAL,
        ]
    )
    def list(self, request: Request) -> Response:
        """By name, unless ordered otherwise."""
        _, row = snapshot_asked(request)
        pool, model = plain_text(request, "pool"), plain_text(request, "model")
        has_gpus = yes_or_no(request, "has_gpus")
        tag = facts_tag(request, row)
        if same := unchanged(request, tag):
            return same
        picture = open_snapshot(row)
        nodes = [
            node
            for _, node in sorted(picture.nodes.items())
            if (not pool or node.pool == pool)
            and (not model or node.model == model)
            and (has_gpus is None or bool(node.gpus) == has_gpus)
        ]
        answer = self.page_of(nodes, lambda node: node_summary(picture, node), NODE_ORDER)
        answer["ETag"] = tag
        return answer

    @extend_schema(
        parameters=[CLUSTER, OpenApiParameter("name", str, OpenApiParameter.PATH), *CONDITIONAL],
        responses=NodeDetailSerializer,
    )
    def retrieve(self, request: Request, name: str) -> Response:
        """One node with its devices and their holders, the link matrix, MIG instances and pods."""
        cluster, row = snapshot_asked(request)
        measured_at, readings = import_string(settings.DEVICE_READINGS)(cluster)
        tag = tag_of(facts_tag(request, row), row.taken_at, measured_at or "")
        if same := unchanged(request, tag):
            return same
        picture = open_snapshot(row)
        node = picture.nodes.get(name)
        if node is None:
            raise NotFound(f"{cluster.name} has no node {name!r} in its newest snapshot")
        facts = {**node_detail(picture, node), "cluster": cluster.name, "as_of": as_time(picture.taken_at)}
        facts["telemetry"] = readings(node)
        return Response(NodeDetailSerializer(facts).data, headers={"ETag": tag})


class GpuViewSet(_RowsViewSet):
    """Physical GPUs of the newest snapshot of one cluster."""

    serializer_class = GpuRowSerializer

    @extend_schema(
        parameters=[
            CLUSTER,
            OpenApiParameter("node", str, description="only of this node"),
            POOL,
            MODEL,
            OpenApiParameter("uuid", str, description="only the one with this uuid"),
            OpenApiParameter("index", {"type": "integer", "minimum": 0, "maximum": 1000}),
            OpenApiParameter("state", str, enum=STATES),
            OpenApiParameter("is_healthy", bool),
            ordering_parameter(GPU_ORDER),
            *CONDITIONAL,
        ]
    )
    def list(self, request: Request) -> Response:
        """One row per physical device, of any vendor, by node and index unless ordered otherwise."""
        _, row = snapshot_asked(request)
        named = {key: plain_text(request, key) for key in ("node", "pool", "model", "uuid")}
        index = whole_number(request, "index", -1, most=1000)
        healthy, state = yes_or_no(request, "is_healthy"), plain_text(request, "state")
        if state and state not in STATES:
            raise ValidationError({"state": [f"choose one of {', '.join(STATES)}"]})
        tag = facts_tag(request, row)
        if same := unchanged(request, tag):
            return same
        picture = open_snapshot(row)
        found = [
            one
            for one in gpus_of(picture)
            if _is(named, node=one.node.name, pool=one.node.pool, model=one.model, uuid=one.gpu.uuid)
            and index in (-1, one.gpu.index)
            and healthy in (None, one.gpu.healthy)
            and (not state or one.state == state)
        ]
        answer = self.page_of(found, gpu_row, GPU_ORDER)
        answer["ETag"] = tag
        return answer


def _is(wanted: dict[str, str], **facts: str) -> bool:
    return all(not value or facts[key] == value for key, value in wanted.items())
