"""Puts a cluster into shadow, or takes it out of it. One durable transaction."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.executions.errors import WrongState
from apps.executions.models import Execution
from apps.executions.states import TERMINAL


@denials_recorded()
@transaction.atomic(durable=True)
def set_shadow(*, actor: Any, cluster_id: int, is_shadow: bool) -> Cluster:
    """actor None: somebody at the server's command line. Asked again, nothing changes.

    Raises Denied; WrongState while an execution is under way there (it would be left half done).
    """
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if not cluster.is_live:
        raise WrongState(f"{cluster.name} is known from a dump only: nothing can be started on it anyway")
    if cluster.is_shadow == is_shadow:
        return cluster
    under_way = Execution.objects.filter(plan__cluster=cluster).exclude(state__in=TERMINAL).first()
    if is_shadow and under_way is not None:
        raise WrongState(
            f"execution {under_way.pk} is under way on {cluster.name}: cancel it or wait for its end, then "
            "put the cluster into shadow"
        )
    cluster.is_shadow = is_shadow
    cluster.save(update_fields=["is_shadow"])
    action = "cluster.shadowed" if is_shadow else "cluster.unshadowed"
    audit.record(actor=actor, action=action, subject=cluster, cluster=cluster.name)
    publish_on_commit(cluster.name, "policy", {})
    return cluster
