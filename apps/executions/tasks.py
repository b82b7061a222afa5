"""What workers do for executions. Thin shells: what is known stands in the rows, a message only wakes."""

import time
from itertools import dropwhile

import structlog
from celery import shared_task
from django.conf import settings

from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.clusters.queries import active_clusters
from apps.executions import queries, runner
from apps.executions.cluster_preflight import keeping
from apps.executions.cluster_switch import look_at_switch
from apps.executions.console_lease import look_at_lease
from apps.executions.gpu_hours.measuring import measure_due
from apps.executions.held import looking, releases
from apps.executions.owner_notices import tell_owners
from apps.executions.preflight import run_dry_runs
from apps.executions.proving import working
from apps.executions.rounds import act_on_each
from apps.executions.safe_mode import look_and_keep
from apps.executions.shadow.comparing import compare_open
from apps.executions.shadow.predicting import predict_if_due
from apps.executions.shadow.standing import shadow_clusters, why_shadow
from apps.executions.sweeping import free_strays
from apps.kube.errors import KubeError
from apps.plans.models import PlanVersion
from apps.plans.waking import wake_worker

log = structlog.get_logger(__name__)


@shared_task
def advance_execution(execution_id: int) -> None:
    """Look at one execution. A lost, late or repeated message does no harm."""
    limit = time.monotonic() + settings.EXECUTION_VISIT_SECONDS
    if runner.advance(execution_id, stays=True) and time.monotonic() > limit:
        # It was moving when its visit ended: the timer need not be waited for.
        wake_worker("apps.executions.tasks.advance_execution", execution_id)


@shared_task
def reconcile_executions() -> None:
    """The timer's half: each open execution is looked at, whatever messages were lost.

    Those for which no worker can be woken are visited here, the longest unseen first; where time runs out the
    next timer begins with the rest.
    """
    limit = time.monotonic() + settings.EXECUTION_LONG_VISIT_SECONDS
    ids = list(queries.open_executions().values_list("pk", flat=True))
    # A broker that is away costs seconds for each message: it is not asked again in this round.
    unwoken = list(dropwhile(lambda pk: wake_worker("apps.executions.tasks.advance_execution", pk), ids[1:]))
    act_on_each(ids[:1] + unwoken, advance_execution, until=limit)


@shared_task
def tell_owners_of_moves() -> None:
    """Events on the workloads whose pods are moved. A failure here holds nothing up."""
    tell_owners()


@shared_task
def free_stray_pods() -> None:
    """No pod waits behind our gate once its move is over."""
    free_strays()


@shared_task
def look_at_kill_switches() -> None:
    """For starts, pages and paused executions: runners look by themselves before each effect."""
    act_on_each(active_clusters(), look_at_switch)


@shared_task
def keep_leases() -> None:
    """This console stays the one that may change its clusters, or sees which other one may."""
    act_on_each(active_clusters(), _keep_lease)


def _keep_lease(cluster: Cluster) -> None:
    if not why_shadow(cluster):
        look_at_lease(cluster)
    try:
        look_and_keep(cluster)
    except (KubeError, ConnectionFailed) as error:
        log.warning(
            "what a cluster in safe mode carries is not known", cluster=cluster.name, reason=str(error)
        )


@shared_task
def run_missing_dry_runs() -> None:
    """Ask the cluster about the evictions of plans that wait for an approval."""
    act_on_each(queries.versions_without_dry_run(), _run_dry_runs)


def _run_dry_runs(version: PlanVersion) -> None:
    try:
        run_dry_runs(version_id=version.pk)
    except (KubeError, ConnectionFailed) as error:
        log.warning("no dry run", plan=version.plan_id, reason=str(error))


@shared_task
def examine_cluster(cluster_id: int) -> None:
    """The preflight of one cluster, if it is due or was asked for."""
    keeping.look_if_due(cluster_id)


@shared_task
def examine_clusters() -> None:
    """The timer's half of `examine_cluster`."""
    act_on_each(keeping.due_clusters(), keeping.look_if_due)


@shared_task
def look_at_holdings(cluster_id: int) -> None:
    """What of ours is in one cluster, if it is due or was asked for."""
    looking.look_if_due(cluster_id)


@shared_task
def look_at_all_holdings() -> None:
    """The timer's half of `look_at_holdings`."""
    act_on_each(looking.due_clusters(), looking.look_if_due)


@shared_task(soft_time_limit=600, time_limit=660)
def work_on_release(release_id: int) -> None:
    """Release everything of ours in a cluster, or find out what that would be."""
    releases.work_on_release(release_id)


@shared_task(soft_time_limit=600, time_limit=660)
def work_on_releases() -> None:
    """The timer's half of `work_on_release`."""
    act_on_each(releases.due_releases(), releases.work_on_release)


@shared_task
def measure_gpu_hours() -> None:
    """Look what became of the executions of the last day, each every quarter of an hour."""
    measure_due()


@shared_task(soft_time_limit=600, time_limit=660)
def follow_shadow_clusters() -> None:
    """Make the predictions that are due, and look what became of the earlier ones."""
    act_on_each(shadow_clusters(), _follow_shadow)


def _follow_shadow(cluster: Cluster) -> None:
    compare_open(cluster)
    predict_if_due(cluster)


@shared_task(soft_time_limit=200, time_limit=230)
def work_on_proof(proof_id: int) -> None:
    """Prove whether a cluster's scheduler obeys its extender."""
    working.work_on_proof(proof_id)


@shared_task(soft_time_limit=600, time_limit=660)
def work_on_proofs() -> None:
    """The timer's half of `work_on_proof`."""
    act_on_each(working.due_proofs(), working.work_on_proof)
