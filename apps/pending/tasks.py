"""What workers do for the queue's history. Thin shells: what is known stands in the rows."""

from celery import shared_task

from apps.clusters.models import Cluster
from apps.pending import services


def note_stays(snapshot_id: int) -> None:
    """Called by whoever measured a snapshot, since its picture is open there."""
    services.follow_snapshot(snapshot_id)


@shared_task
def forget_old_stays() -> None:
    for cluster_id in Cluster.objects.values_list("pk", flat=True):
        services.drop_old_stays(cluster_id=cluster_id)
