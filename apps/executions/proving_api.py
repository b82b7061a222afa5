"""Proofs that schedulers obey our extender, over REST: parse, call one service or query, answer."""

from __future__ import annotations

from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.clusters.models import Cluster
from apps.executions.proving.asking import ProofStanding, order_proof, proof_standing
from apps.executions.states import Obedience
from apps.executions.trust_api import OfClusters


class SchedulerProofSerializer(serializers.Serializer):
    """is_open: a worker is at a proof now. is_proved: the scheduler obeyed, at the extender's address of
    today; that it is still the same scheduler is looked at before each effect that relies on it. result,
    resources, asked_by, ended_at, holder: of the newest proof that has ended; null or empty for none."""

    cluster = serializers.CharField()
    is_open = serializers.BooleanField()
    is_proved = serializers.BooleanField()
    sentence = serializers.CharField()
    result = serializers.ChoiceField(choices=Obedience.choices, allow_blank=True)
    resources = serializers.ListField(child=serializers.CharField())
    holder = serializers.CharField(allow_blank=True)
    asked_by = serializers.CharField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class SchedulerProofViewSet(OfClusters):
    """Whether the schedulers of the clusters that you see obey the extender, by the cluster's name."""

    serializer_class = SchedulerProofSerializer
    rates = {"prove": "deciding"}

    @extend_schema(responses=SchedulerProofSerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster, also where nobody has tried yet."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response([_told(cluster) for cluster in page])

    @extend_schema(responses=SchedulerProofSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """What the newest proof has shown."""
        return Response(_told(self.get_object()))

    @extend_schema(request=None, responses={202: SchedulerProofSerializer})
    @action(detail=True, methods=["post"])
    def prove(self, request: Request, name: str) -> Response:
        """A worker asks the scheduler with pods of the console. For admins, in the browser."""
        cluster = self.get_object()
        order_proof(actor=cast(Any, request.user), cluster=cluster)
        return Response(_told(cluster), status=status.HTTP_202_ACCEPTED)


def _told(cluster: Cluster) -> dict[str, Any]:
    found: ProofStanding = proof_standing(cluster)
    row = found.row
    told = {
        "cluster": cluster.name,
        "is_open": found.is_open,
        "is_proved": found.is_proved,
        "sentence": found.sentence,
        "result": row.result if row else "",
        "resources": row.resources if row else [],
        "holder": row.holder if row else "",
        "asked_by": row.asked_by.username if row and row.asked_by else None,
        "ended_at": row.ended_at if row else None,
    }
    return dict(SchedulerProofSerializer(told).data)
