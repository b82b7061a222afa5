"""Every read of executions that more than one caller needs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Exists, F, Min, OuterRef, Q, QuerySet

from apps.accounts.errors import NotVisible
from apps.accounts.queries import clusters_visible_to
from apps.clusters.models import Cluster
from apps.executions.models import ClusterSafety, DryRun, Execution, Step, StepEvent
from apps.executions.states import TERMINAL, ExecutionState, StepState
from apps.plans.models import Plan, PlanVersion
from apps.plans.states import PlanState

if TYPE_CHECKING:
    from apps.accounts.queries import Person


def executions_for(user: Person, cluster: Cluster | None = None) -> QuerySet[Execution]:
    """Executions that `user` may see, newest first."""
    found = Execution.objects.filter(plan__cluster_id__in=clusters_visible_to(user)).select_related(
        "plan__cluster", "version", "started_by"
    )
    return found if cluster is None else found.filter(plan__cluster=cluster)


def execution_for(user: Person, execution_id: int) -> Execution:
    """Raises NotVisible both for one that does not exist and for one that may not be seen."""
    found = executions_for(user).filter(pk=execution_id).first()
    if found is None:
        raise NotVisible(f"there is no execution {execution_id} that you can see", action="see")
    return found


def in_safe_mode(cluster_id: int) -> bool:
    """This database is older than that cluster: nothing is sent there until a person leaves safe mode."""
    return ClusterSafety.objects.filter(cluster_id=cluster_id, safe_since__isnull=False).exists()


def is_in_safe_mode(execution_id: int) -> bool:
    """The cluster of this execution is."""
    return ClusterSafety.objects.filter(
        cluster__plans__executions=execution_id, safe_since__isnull=False
    ).exists()


def executions_of(plan: Plan) -> QuerySet[Execution]:
    """All tries at one plan, newest first: what a plan's page joins to it."""
    return Execution.objects.filter(plan=plan).select_related("started_by")


def plans_under_way(found: QuerySet[Plan]) -> QuerySet[Plan]:
    """Those of `found` that something can still come of as they are: computed or being computed, to be
    decided, to be started, or being carried out. Neither what has ended nor a draft that does nothing."""
    version = PlanVersion.objects.filter(plan=OuterRef("pk"), number=OuterRef("version_number"))
    does_nothing = Exists(version.filter(body__moves=[], body__reconfigurations=[]))
    failed = ~Exists(version) & ~Q(state_reason="")
    to_begin = Q(begun_at=None, state__in=[PlanState.PROPOSED, PlanState.APPROVED])
    draft = Q(state=PlanState.DRAFT) & ~failed & ~does_nothing
    carried_out = Exists(Execution.objects.filter(plan=OuterRef("pk")).exclude(state__in=TERMINAL))
    return found.filter(to_begin | draft | carried_out)


def open_executions() -> QuerySet[Execution]:
    """Those that no runner has looked at for longest come first."""
    longest_unseen = F("visited_at").asc(nulls_first=True)
    return Execution.objects.exclude(state__in=TERMINAL).order_by(longest_unseen, "pk")


def is_another_open(execution: Execution) -> bool:
    """Whether any other one may need a worker for longer than a look."""
    standing = (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN)
    return open_executions().exclude(pk=execution.pk).exclude(state__in=standing).exists()


def steps_of(execution: Execution) -> QuerySet[Step]:
    return Step.objects.filter(execution=execution)


def events_of(execution: Execution, *, after: int = 0) -> QuerySet[StepEvent]:
    """The event list in order; `after`: only those with a higher id."""
    return StepEvent.objects.filter(execution=execution, pk__gt=after).select_related("step")


def blocked_since(execution: Execution) -> dict[int, datetime]:
    """By step id: when it was blocked first."""
    told = StepEvent.objects.filter(execution=execution, step__isnull=False, state=StepState.BLOCKED)
    return dict(told.order_by().values_list("step").annotate(Min("at")))


def dry_run_of(version: PlanVersion) -> QuerySet[DryRun]:
    return DryRun.objects.filter(version=version)


def versions_without_dry_run() -> QuerySet[PlanVersion]:
    """Current versions of proposed plans whose evictions nobody has asked the cluster about yet. In no order:
    one whose questions kill their worker must not keep all others from being asked."""
    asked = DryRun.objects.values("version_id")
    return (
        PlanVersion.objects.filter(plan__state=PlanState.PROPOSED, number=F("plan__version_number"))
        .exclude(pk__in=asked)
        .select_related("plan__cluster")
        .order_by("?")
    )
