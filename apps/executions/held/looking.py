"""Keeps what of ours is in each watched cluster: looked at by the timer, and when somebody asks for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.clusters.notices import publish
from apps.clusters.queries import active_clusters
from apps.executions import ledger
from apps.executions.holdings import Held, held_from_dict, held_to_dict, holdings_of
from apps.executions.models import ClusterHoldings, Execution
from apps.executions.states import TERMINAL
from apps.kube.errors import KubeError
from apps.plans.waking import wake_worker

EVERY_SECONDS = 300.0
BUSY_SECONDS = 60.0
"""While an execution is open there, and once after it has ended."""
TOPIC = "holdings"
LOOK = "apps.executions.tasks.look_at_holdings"


def holdings_kept(cluster: Cluster) -> ClusterHoldings:
    """The kept one; an empty one that is not stored where nobody has looked."""
    return ClusterHoldings.objects.filter(cluster=cluster).first() or ClusterHoldings(cluster=cluster)


def held_of(row: ClusterHoldings) -> list[Held]:
    return [held_from_dict(kept) for kept in row.held]


@denials_recorded()
@transaction.atomic(durable=True)
def request_look(*, actor: Any, cluster: Cluster) -> None:
    """A worker looks soon; the timer finds the wish too. For operators and admins. Raises Denied."""
    action = Action.OPERATE if may(actor, Action.OPERATE, cluster) else Action.ADMINISTER
    authorize(actor, action, cluster, subject=cluster)
    ClusterHoldings.objects.update_or_create(cluster=cluster, defaults={"tried_at": None})
    audit.record(actor=actor, action="cluster.holdings_asked", subject=cluster, cluster=cluster.name)
    cluster_id = cluster.pk
    transaction.on_commit(lambda: wake_worker(LOOK, cluster_id), robust=True)


def due_clusters() -> list[int]:
    """Watched clusters whose look was asked for, or is older than `EVERY_SECONDS`; `BUSY_SECONDS` are enough
    where executions have changed what is held since."""
    row = ClusterHoldings.objects.filter(cluster=OuterRef("pk"))
    fresh = row.filter(tried_at__gte=Now() - timedelta(seconds=EVERY_SECONDS)).exclude(_is_worn())
    return list(active_clusters().exclude(Exists(fresh)).order_by("pk").values_list("pk", flat=True))


def look_if_due(cluster_id: int) -> bool:
    """False if another worker has just begun, or it was looked at lately."""
    ClusterHoldings.objects.get_or_create(cluster_id=cluster_id)
    due = Q(tried_at__isnull=True) | Q(tried_at__lt=Now() - timedelta(seconds=EVERY_SECONDS)) | _is_worn()
    if not ClusterHoldings.objects.filter(due, cluster_id=cluster_id).update(tried_at=Now()):
        return False
    look_now(cluster_id)
    return True


def _is_worn() -> Q:
    """Of a row of ClusterHoldings: looked at a minute ago, and executions may have changed it since."""
    moved = Execution.objects.filter(plan__cluster=OuterRef("cluster")).filter(
        ~Q(state__in=TERMINAL) | Q(finished_at__gt=OuterRef("tried_at"))
    )
    return Q(tried_at__lt=Now() - timedelta(seconds=BUSY_SECONDS)) & Q(Exists(moved))


def look_now(cluster_id: int) -> ClusterHoldings:
    """Look at once and keep it. Where the cluster does not answer what was found before stays."""
    cluster = Cluster.objects.get(pk=cluster_id)
    try:
        found, error = holdings_of(cluster), ""
    except (KubeError, ConnectionFailed) as refused:
        found, error = None, str(refused)
    now = ledger.database_time()
    facts: dict[str, Any] = {"tried_at": now, "error": error}
    if found is not None:
        held = [held_to_dict(one) for one in found.held]
        facts |= {"held": held, "unread": found.unread, "looked_at": now}
    row, _ = ClusterHoldings.objects.update_or_create(cluster=cluster, defaults=facts)
    publish(cluster.name, TOPIC, {})
    return row
