"""What workers do for plans. Thin shells: what is known stands in the rows."""

import time

from celery import shared_task

from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.queries import drafts_to_compute

SOFT_LIMIT, HARD_LIMIT = 1200, 1260
"""Seconds. A search ends by itself long before (request_rules.MOST_SECONDS); this ends one that does not ask
whether it should."""
NO_MORE_AFTER_SECONDS = 60.0


@shared_task(soft_time_limit=SOFT_LIMIT, time_limit=HARD_LIMIT)
def compute_plan(plan_id: int) -> None:
    """Compute the version that one draft waits for."""
    compute_draft(plan_id)


@shared_task(soft_time_limit=SOFT_LIMIT, time_limit=HARD_LIMIT)
def compute_requested_plans() -> None:
    """The timer's half of `compute_plan`: drafts whose message was lost, or whose worker died. Those that
    are left after a while are the next call's."""
    begun = time.monotonic()
    for plan_id in list(drafts_to_compute().order_by("pk").values_list("pk", flat=True)):
        if time.monotonic() - begun < NO_MORE_AFTER_SECONDS:
            compute_draft(plan_id)


@shared_task
def expire_plans() -> None:
    """Let plans expire whose time is up."""
    services.expire_plans()


@shared_task
def mark_stale_plans() -> None:
    """Find the proposed and approved plans that the cluster has left behind."""
    services.mark_stale_plans()
