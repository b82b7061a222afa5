"""Changes of what is expected of nodes: learned by the watcher, or accepted by a person."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.models import Cluster, NodeExpectation


def keep_expectations(
    *,
    cluster_id: int,
    learned: dict[str, dict[str, Any]],
    gone: Sequence[str],
    accepted_at: datetime | None,
) -> bool:
    """What nodes have shown, by UID; forgets the nodes that are gone.

    accepted_at: the acceptance that the caller knew of when it judged. False, and nothing is written, if
    a person has accepted something since: what was learned may be just what he let go.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update(no_key=True).only("drift_accepted_at").get(pk=cluster_id)
        if cluster.drift_accepted_at != accepted_at:
            return False
        NodeExpectation.objects.filter(cluster_id=cluster_id, node_uid__in=gone).delete()
        NodeExpectation.objects.bulk_create(
            [
                NodeExpectation(cluster_id=cluster_id, node_uid=uid, facts=facts)
                for uid, facts in learned.items()
            ],
            update_conflicts=True,
            update_fields=["facts"],
            unique_fields=["cluster", "node_uid"],
            batch_size=1000,
        )
    return True


@denials_recorded()
@transaction.atomic(durable=True)
def accept_drift(*, actor: Any, cluster_id: int, node_uid: str, node: str) -> None:
    """A person says that a node is meant to be as it is: from now on that is what is expected of it."""
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
    authorize(actor, Action.OPERATE, cluster, subject=cluster)
    known = NodeExpectation.objects.filter(cluster=cluster, node_uid=node_uid)
    facts = known.values_list("facts", flat=True).first()
    known.delete()
    cluster.drift_accepted_at = timezone.now()
    cluster.save(update_fields=["drift_accepted_at"])
    audit.record(
        actor=actor,
        action="node.drift-accepted",
        subject=cluster,
        cluster=cluster.name,
        detail={"node": node, "node_uid": node_uid, "expected": facts},
    )
