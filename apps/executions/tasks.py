"""What workers do for executions. Thin shells: what is known stands in the rows, a message only wakes."""

import structlog
from celery import shared_task

from apps.clusters.errors import ConnectionFailed
from apps.executions import queries, runner
from apps.executions.preflight import run_dry_runs
from apps.executions.sweeping import free_strays
from apps.kube.errors import KubeError
from apps.plans.waking import wake_worker

log = structlog.get_logger(__name__)


@shared_task
def advance_execution(execution_id: int) -> None:
    """Look at one execution. A lost, late or repeated message does no harm."""
    runner.advance(execution_id)


@shared_task
def reconcile_executions() -> None:
    """The timer's half: each open execution is looked at, whatever messages were lost."""
    ids = list(queries.open_executions().values_list("pk", flat=True))
    for execution_id in ids[1:]:
        wake_worker("apps.executions.tasks.advance_execution", execution_id)
    for execution_id in ids[:1]:
        runner.advance(execution_id)


@shared_task
def free_stray_pods() -> None:
    """No pod waits behind our gate once its move is over."""
    free_strays()


@shared_task
def run_missing_dry_runs() -> None:
    """Ask the cluster about the evictions of plans that wait for an approval."""
    for version in queries.versions_without_dry_run():
        try:
            run_dry_runs(version_id=version.pk)
        except (KubeError, ConnectionFailed) as error:
            log.warning("no dry run", plan=version.plan_id, reason=str(error))
