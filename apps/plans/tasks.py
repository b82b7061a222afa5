"""What workers do for plans. Thin shells: what is known stands in the rows."""

from celery import shared_task

from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.queries import drafts_to_compute


@shared_task
def compute_plan(plan_id: int) -> None:
    """Compute the version that one draft waits for."""
    compute_draft(plan_id)


@shared_task
def compute_requested_plans() -> None:
    """The timer's half of `compute_plan`: drafts whose message was lost, or whose worker died."""
    for plan_id in list(drafts_to_compute().order_by("pk").values_list("pk", flat=True)):
        compute_draft(plan_id)


@shared_task
def expire_plans() -> None:
    """Let plans expire whose time is up."""
    services.expire_plans()


@shared_task
def mark_stale_plans() -> None:
    """Find the proposed and approved plans that the cluster has left behind."""
    services.mark_stale_plans()
