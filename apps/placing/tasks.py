"""What workers do for verdicts. Thin shells: how long they are kept stands in services."""

from celery import shared_task
from django.utils import timezone

from apps.clusters.models import Cluster
from apps.placing import services


@shared_task
def forget_old_verdicts() -> None:
    """An extender forgets its own cluster's while it runs; this goes on where none does any more."""
    for cluster_id in Cluster.objects.values_list("pk", flat=True):
        services.drop_old_verdicts(cluster_id=cluster_id, now=timezone.now())
