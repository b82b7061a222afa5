"""What of ours is in clusters, over REST: the kept look, and the wish for a new one.

Releasing everything takes an admin in the browser, who is shown first what would go: no token has a scope
for it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, cast

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.limits import Scope
from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.held import looking
from apps.executions.held.releases import newest_release
from apps.executions.holdings import Held
from apps.executions.holdings_serializers import HoldingsSerializer
from apps.executions.models import ClusterRelease
from apps.executions.trust_api import OfClusters


class HoldingsViewSet(OfClusters):
    """What we hold on the clusters that you see, by the cluster's name."""

    serializer_class = HoldingsSerializer
    scopes = {"look": Scope.CONTROL}
    rates = {"look": "operating"}

    @extend_schema(responses=HoldingsSerializer(many=True))
    def list(self, request: Request) -> Response:
        """One for each cluster, also where nobody has looked yet."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        return self.get_paginated_response([_told(cluster) for cluster in page])

    @extend_schema(responses=HoldingsSerializer)
    def retrieve(self, request: Request, name: str) -> Response:
        """Every cordon, taint, gate, hold, steering and toleration of ours, with age, owner and deadline."""
        return Response(_told(self.get_object()))

    @extend_schema(request=None, responses={202: HoldingsSerializer})
    @action(detail=True, methods=["post"])
    def look(self, request: Request, name: str) -> Response:
        """Look again soon. For operators and admins."""
        cluster = self.get_object()
        looking.request_look(actor=cast(Any, request.user), cluster=cluster)
        return Response(_told(cluster), status=status.HTTP_202_ACCEPTED)


def _told(cluster: Cluster) -> dict[str, Any]:
    row, now = looking.holdings_kept(cluster), ledger.database_time()
    facts = {name: getattr(row, name) for name in ("looked_at", "tried_at", "error", "unread")}
    facts |= {
        "cluster": cluster.name,
        "held": [_one(held, now) for held in looking.held_of(row)],
        "last_release": _release(newest_release(cluster, is_rehearsal=False)),
    }
    return dict(HoldingsSerializer(facts).data)


def _one(held: Held, now: datetime) -> dict[str, Any]:
    return {
        **asdict(held),
        "age_seconds": int((now - held.since).total_seconds()) if held.since else None,
        "is_overdue": held.deadline is not None and held.deadline < now,
    }


def _release(row: ClusterRelease | None) -> dict[str, Any] | None:
    if row is None:
        return None
    names = ("asked_at", "ended_at", "released", "left", "error")
    return {"asked_by": row.asked_by.get_username(), **{name: getattr(row, name) for name in names}}
