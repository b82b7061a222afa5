"""Stores what a cluster's preflight found, by the timer, by a button and by a command."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.notices import publish
from apps.clusters.queries import active_clusters
from apps.executions import ledger
from apps.executions.cluster_preflight.consoles import add_console
from apps.executions.cluster_preflight.examining import Examined, examine_cluster
from apps.executions.cluster_preflight.lines import Line, line_from_dict, line_to_dict
from apps.executions.console_standing import known_of
from apps.executions.models import ClusterPreflight
from apps.kube.errors import KubeError
from apps.plans.waking import wake_worker

EVERY_SECONDS = 600.0
TOPIC = "preflight"
EXAMINE = "apps.executions.tasks.examine_cluster"


def preflight_of(cluster: Cluster) -> ClusterPreflight:
    """The kept one; an empty one that is not stored where nobody has looked."""
    return ClusterPreflight.objects.filter(cluster=cluster).first() or ClusterPreflight(cluster=cluster)


def lines_of(row: ClusterPreflight) -> list[Line]:
    """As they were found, and which console has the cluster as it is known now."""
    return add_console([line_from_dict(stored) for stored in row.lines], known_of(row.cluster))


@denials_recorded()
@transaction.atomic(durable=True)
def request_look(*, actor: Any, cluster: Cluster) -> None:
    """A worker looks again soon; the timer finds the wish too. For operators and admins. Raises Denied."""
    action = Action.OPERATE if may(actor, Action.OPERATE, cluster) else Action.ADMINISTER
    authorize(actor, action, cluster, subject=cluster)
    ClusterPreflight.objects.update_or_create(cluster=cluster, defaults={"tried_at": None})
    audit.record(actor=actor, action="cluster.preflight_asked", subject=cluster, cluster=cluster.name)
    cluster_id = cluster.pk
    transaction.on_commit(lambda: wake_worker(EXAMINE, cluster_id), robust=True)


def due_clusters() -> list[int]:
    """Watched clusters that nobody has looked at for a while, or whose look was asked for."""
    due = Q(preflight__isnull=True) | Q(preflight__tried_at__isnull=True)
    due |= Q(preflight__tried_at__lt=Now() - timedelta(seconds=EVERY_SECONDS))
    return list(active_clusters().filter(due).order_by("pk").values_list("pk", flat=True))


def look_if_due(cluster_id: int) -> bool:
    """False if another worker has just begun, or it was looked at lately."""
    ClusterPreflight.objects.get_or_create(cluster_id=cluster_id)
    due = Q(tried_at__isnull=True) | Q(tried_at__lt=Now() - timedelta(seconds=EVERY_SECONDS))
    if not ClusterPreflight.objects.filter(due, cluster_id=cluster_id).update(tried_at=Now()):
        return False
    look_now(cluster_id)
    return True


def look_now(cluster_id: int) -> ClusterPreflight:
    """Look at once and keep it. Where the cluster does not answer the lines of the look before stay."""
    cluster = Cluster.objects.get(pk=cluster_id)
    try:
        found, error = _look(cluster), ""
    except (KubeError, ConnectionFailed) as refused:
        found, error = None, str(refused)
    now = ledger.database_time()
    facts: dict[str, Any] = {"tried_at": now, "error": error}
    if found is not None:
        lines = [line_to_dict(line) for line in found.lines]
        facts |= {"lines": lines, "may_evict": found.may_evict, "looked_at": now}
    row, _ = ClusterPreflight.objects.update_or_create(cluster=cluster, defaults=facts)
    publish(cluster.name, TOPIC, {})
    return row


def _look(cluster: Cluster) -> Examined:
    gateway = open_gateway(cluster)
    try:
        return examine_cluster(cluster, gateway)
    finally:
        gateway.close()
