"""What workers do for fragmentation. Thin shells: what is known stands in the rows."""

import structlog
from celery import shared_task
from django.conf import settings
from django.utils.module_loading import import_string

from apps.clusters.models import Snapshot
from apps.fragmentation import services
from apps.fragmentation.queries import unmeasured_snapshot_ids

logger = structlog.get_logger(__name__)


@shared_task
def measure_snapshots() -> None:
    """Measure what is unmeasured, newest first; a snapshot that cannot be measured holds up no other."""
    for snapshot_id in unmeasured_snapshot_ids():
        try:
            services.measure_snapshot(snapshot_id=snapshot_id)
        except Snapshot.DoesNotExist:
            continue  # pruned meanwhile
        except Exception:
            logger.exception("a snapshot could not be measured", snapshot=snapshot_id)
        else:
            _call_followers(snapshot_id)
    services.follow_all_snapshots()


def _call_followers(snapshot_id: int) -> None:
    """What REPORT_FOLLOWERS names is done here and now, because the picture is still open in this process.
    The stages after this one are not imported, and a trouble of theirs does not hold up the measuring."""
    for name in settings.REPORT_FOLLOWERS:
        try:
            import_string(name)(snapshot_id)
        except Exception:
            logger.exception("a follower of a report failed", follower=name, snapshot=snapshot_id)
