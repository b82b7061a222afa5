"""What workers do for the pages. Thin shells: what is ready stands in the rows."""

import structlog
from celery import shared_task

from apps.clusters.models import Cluster, Snapshot
from apps.clusters.queries import latest_snapshot
from apps.dashboard import prepared

logger = structlog.get_logger(__name__)


@shared_task
def prepare_grids() -> None:
    """Prepare the newest grid of each cluster that needs one; a cluster that cannot be holds up no other."""
    for cluster in Cluster.objects.filter(is_active=True):
        row = latest_snapshot(cluster)
        if row is None or not prepared.is_prepared_ahead(row):
            continue
        try:
            prepared.prepare_grid(snapshot_id=row.pk)
        except Snapshot.DoesNotExist:
            continue  # pruned meanwhile
        except Exception:
            logger.exception("a grid could not be prepared", cluster=cluster.name)
