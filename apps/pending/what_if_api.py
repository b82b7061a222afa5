"""What if pods of a shape came: every node's verdict over REST, from the newest snapshot of one cluster."""

from __future__ import annotations

from typing import Any

from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, unchanged
from apps.accounts.parameters import yes_or_no
from apps.accounts.rates import require_rate
from apps.clusters.api import CLUSTER, facts_tag, snapshot_asked
from apps.clusters.models import Cluster
from apps.clusters.queries import open_snapshot
from apps.pending import asking
from apps.planner.inventory import LinkClass
from apps.planner.whatif import (
    LINKS,
    MIG_PROFILE,
    MOST_GPUS,
    MOST_INSTANCES,
    MOST_MIB,
    MOST_MILLICORES,
    MOST_PODS,
    Shape,
    count_fitting,
)
from apps.planner.whatif_changes import FORMS, MOST_CHANGES, MOST_LETTERS, Change, read_changes
from apps.planner.whatif_layouts import BadChange


class ShapeSerializer(serializers.Serializer):
    """The query. gpu_milli under 1000 is a share of one GPU."""

    pods = serializers.IntegerField(min_value=1, max_value=MOST_PODS, default=1)
    gpus = serializers.IntegerField(
        min_value=0, max_value=MOST_GPUS, required=False, help_text="of each pod; 1 unless it asks for MIG"
    )
    gpu_milli = serializers.IntegerField(
        min_value=1, max_value=1000, default=1000, help_text="of each GPU: below 1000 a share of one GPU"
    )
    gpu_memory_mib = serializers.IntegerField(
        min_value=0, max_value=MOST_MIB, default=0, help_text="that each GPU must have"
    )
    link = serializers.ChoiceField(
        choices=list(LINKS), required=False, help_text="wanted between a pod's GPUs"
    )
    model = serializers.CharField(
        max_length=60, required=False, default="", help_text="GPU model or its family, such as A100"
    )
    cpu_millicores = serializers.IntegerField(min_value=0, max_value=MOST_MILLICORES, default=0)
    host_memory_mib = serializers.IntegerField(min_value=0, max_value=MOST_MIB, default=0)
    mig_profile = serializers.RegexField(
        f"^{MIG_PROFILE}$", required=False, default="", help_text="as 1g.10gb"
    )
    mig_instances = serializers.IntegerField(min_value=1, max_value=MOST_INSTANCES, default=1)

    def validate(self, asked: dict[str, Any]) -> dict[str, Any]:
        gpus = asked.get("gpus", 0 if asked["mig_profile"] else 1)
        if asked["gpu_milli"] < 1000 and gpus > 1:
            raise ValidationError({"gpu_milli": ["a share is of one GPU: leave gpus at 1"]})
        return {**asked, "gpus": gpus}


class RuleSerializer(serializers.Serializer):
    rule = serializers.CharField()
    is_met = serializers.BooleanField()
    words = serializers.CharField()


class ScorePartSerializer(serializers.Serializer):
    name = serializers.CharField()
    points = serializers.FloatField()
    words = serializers.CharField()


class VerdictSerializer(serializers.Serializer):
    """One node. pods: how many of the shape would fit there now. score: 0 to 100, 0 where none fits."""

    node = serializers.CharField()
    fits = serializers.BooleanField()
    pods = serializers.IntegerField()
    free_gpus = serializers.IntegerField()
    score = serializers.FloatField()
    score_parts = ScorePartSerializer(many=True)
    rules = RuleSerializer(many=True, help_text="in the order in which they are asked, also those met")


class ChangeSerializer(serializers.Serializer):
    """One hypothetical change, as it was asked and in words."""

    text = serializers.CharField()
    words = serializers.CharField()


class StandingSerializer(serializers.Serializer):
    """The cluster on one side of the changes. starts: keys of waiting workloads that could start now, without
    any move. Fragmentation against the same target workload on both sides."""

    nodes = serializers.IntegerField()
    gpus = serializers.FloatField()
    idle_gpus = serializers.FloatField()
    waiting_workloads = serializers.IntegerField(source="waiting", help_text="in the queue")
    held_back = serializers.IntegerField(help_text="of these, by the quota of their queue")
    starts = serializers.ListField(child=serializers.CharField())
    free_blocks = serializers.DictField(child=serializers.IntegerField(), help_text="by size: 8, 4, 2, 1")
    free_nodes = serializers.IntegerField()
    gang_pods = serializers.IntegerField(help_text="of the largest gang that could start now")
    gang_gpus = serializers.IntegerField(help_text="of each of its pods")
    gang_link = serializers.CharField()
    fragmentation_gpus = serializers.FloatField()
    fragmentation_ratio = serializers.FloatField(source="ratio")


class EffectSerializer(serializers.Serializer):
    """was_late: the search was cut short, so more might start on either side."""

    before = StandingSerializer()
    after = StandingSerializer()
    new_starts = serializers.ListField(child=serializers.CharField())
    lost_starts = serializers.ListField(child=serializers.CharField())
    new_waiting = serializers.ListField(
        child=serializers.CharField(), help_text="that wait only because of the changes"
    )
    was_late = serializers.BooleanField()


class WhatIfSerializer(serializers.Serializer):
    """A page of nodes, the best first. pods_that_fit: in the whole cluster, now. The changes are tried on a
    picture; nothing is planned or done on it."""

    count = serializers.IntegerField()
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    pods_that_fit = serializers.IntegerField()
    nodes_that_fit = serializers.IntegerField()
    changes = ChangeSerializer(many=True)
    effect = EffectSerializer(allow_null=True, help_text="of the changes; null unless asked by ?effect=true")
    results = VerdictSerializer(many=True)


CHANGES = OpenApiParameter(
    "change",
    {"type": "array", "items": {"type": "string", "maxLength": MOST_LETTERS}, "maxItems": MOST_CHANGES},
    description=f"hypothetical, may be repeated: {FORMS}",
)
EFFECT = OpenApiParameter(
    "effect",
    bool,
    description="true: what the changes would do to the queue and to what is free; takes seconds",
)


def _page_parameters() -> list[OpenApiParameter]:
    return [
        OpenApiParameter(name, {"type": "integer", "minimum": 1}, description="as for every list")
        for name in ("page", "page_size")
    ]


class WhatIfViewSet(GenericViewSet):
    queryset = Cluster.objects.none()
    serializer_class = VerdictSerializer
    filter_backends: list[Any] = []

    @extend_schema(
        parameters=[
            CLUSTER,
            ShapeSerializer,
            CHANGES,
            EFFECT,
            OpenApiParameter("fits", bool, description="true: only nodes that take it; false: the others"),
            *_page_parameters(),
            *CONDITIONAL,
        ],
        responses=forced_singular_serializer(WhatIfSerializer),
        examples=[
            OpenApiExample(
                "Full",
                response_only=True,
                value={
                    "count": 1,
                    "next": None,
                    "previous": None,
                    "pods_that_fit": 0,
                    "nodes_that_fit": 0,
                    "changes": [],
                    "effect": None,
                    "results": [
                        {
                            "node": "a100-03",
                            "fits": False,
                            "pods": 0,
                            "free_gpus": 3,
                            "score": 0.0,
                            "score_parts": [],
                            "rules": [{"rule": "gpus", "is_met": False, "words": "3 of 8 GPUs are free"}],
                        }
                    ],
                },
            )
        ],
    )
    def list(self, request: Request) -> Response:
        """Nodes for a shape, the best first, each with every rule's verdict. Nothing is reserved."""
        cluster, row = snapshot_asked(request)
        asked = ShapeSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        only, weighs = yes_or_no(request, "fits"), yes_or_no(request, "effect")
        changes = _changes(request)
        if weighs:
            require_rate("planning", request.user)
        tag = facts_tag(request, row)
        if same := unchanged(request, tag):
            return same
        picture = open_snapshot(row)
        try:
            after = asking.change(picture, changes)
        except BadChange as error:
            raise ValidationError({"change": [str(error)]}) from error
        verdicts = asking.rank(after, _shape(asked.validated_data))
        shown = [one for one in verdicts if only is None or one.fits == only]
        page = self.paginate_queryset(shown)
        answer = self.get_paginated_response(VerdictSerializer(page, many=True).data)
        answer.data["pods_that_fit"] = count_fitting(verdicts)
        answer.data["nodes_that_fit"] = sum(one.fits for one in verdicts)
        answer.data["changes"] = ChangeSerializer(changes, many=True).data
        effect = asking.weigh_changes(cluster, picture, changes) if weighs else None
        answer.data["effect"] = EffectSerializer(effect).data if effect else None
        answer["ETag"] = tag
        return answer


def _changes(request: Request) -> tuple[Change, ...]:
    try:
        return read_changes(request.query_params.getlist("change"))
    except BadChange as error:
        raise ValidationError({"change": [str(error)]}) from error


def _shape(asked: dict[str, Any]) -> Shape:
    share = asked["gpu_milli"]
    mig = ((asked["mig_profile"], asked["mig_instances"]),) if asked["mig_profile"] else ()
    return Shape(
        count=asked["pods"],
        gpus=asked["gpus"],
        milli=share if asked["gpus"] else 1000,
        link=LinkClass(asked["link"]) if asked.get("link") else None,
        model=asked["model"],
        memory_mib=asked["gpu_memory_mib"],
        cpu_milli=asked["cpu_millicores"],
        host_memory_mib=asked["host_memory_mib"],
        mig=mig,
    )
