"""Taking a dump off the console again. A connected cluster stays: it can be left unwatched."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.errors import InUse
from apps.clusters.models import Cluster, Snapshot


@denials_recorded()
@transaction.atomic(durable=True)
def remove_dump(*, actor: Any, cluster_id: int) -> str:
    """Forget a dump with its snapshots, reports, policy and roles; its name, which is free again.

    Plans are kept for ever, so a dump that somebody planned on stays. Raises Denied or InUse.
    """
    cluster = Cluster.objects.select_for_update().get(pk=cluster_id)
    authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if cluster.is_live:
        raise InUse(f"{cluster.name} is a connected cluster: stop watching it instead.")
    audit.record(actor=actor, action="cluster.removed", subject=cluster, cluster=cluster.name)
    try:
        # By their ids: the bodies are large, and nobody needs them any more.
        Snapshot.objects.filter(cluster=cluster).only("id").delete()
        cluster.delete()
    except ProtectedError as error:
        raise InUse(
            f"{cluster.name} stays: there are plans for it, and plans are never removed. "
            "Upload the next dump under the same name, or under a new one."
        ) from error
    return cluster.name
