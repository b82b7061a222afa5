"""Every read of plans that more than one caller needs. Opens snapshots, changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db.models import F, QuerySet

from apps.accounts.errors import NotVisible
from apps.accounts.queries import clusters_visible_to
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.planner.plan import Plan as PlannerPlan
from apps.planner.plan_json import plan_from_dict
from apps.planner.staleness import what_changed
from apps.planner.verification import check_plan
from apps.plans.models import Decision, Plan, PlanVersion
from apps.plans.policies import policy_of, what_forbids
from apps.plans.states import PlanState, Progress

if TYPE_CHECKING:
    from apps.accounts.queries import Person


@dataclass(frozen=True, slots=True)
class Comparison:
    """A version against the newest snapshot. changes: sentences, empty if it still matches.

    seen_at: when the watcher last heard from the cluster; None if never.
    """

    changes: tuple[str, ...]
    snapshot_id: int | None
    seen_at: datetime | None

    @property
    def sentence(self) -> str:
        """At most three changes, and how many more there are."""
        shown = "; ".join(self.changes[:3])
        more = len(self.changes) - 3
        return f"{shown}; and {more} more" if more > 0 else shown


def plans_for(user: Person, cluster: Cluster | None = None) -> QuerySet[Plan]:
    """Plans that `user` may see, newest first; of one cluster or of all that are visible."""
    found = Plan.objects.filter(cluster_id__in=clusters_visible_to(user)).select_related(
        "cluster", "created_by", "edited_by", "proposed_by"
    )
    return found if cluster is None else found.filter(cluster=cluster)


def plan_for(user: Person, plan_id: int) -> Plan:
    """One plan. Raises NotVisible both for one that does not exist and for one that may not be seen."""
    plan = plans_for(user).filter(pk=plan_id).first()
    if plan is None:
        raise NotVisible(f"there is no plan {plan_id} that you can see")
    return plan


def execution_state_of(plan: Plan) -> str | None:
    """State of the newest try at it, which tells what became of an approved plan; None if none was begun.

    Over many plans: with `prefetch_related("executions")`.
    """
    tries: Any = getattr(plan, "executions")  # noqa: B009 (rows of a later stage, unknown to this one's types)
    newest = next(iter(tries.all()), None)
    return str(newest.state) if newest is not None else None


def current_version(plan: Plan) -> PlanVersion | None:
    """The version that people decide on; None while it is being computed or could not be."""
    return plan.versions.filter(number=plan.version_number).first()


def approval_of(plan: Plan) -> Decision | None:
    """The approval of exactly the current version, if there is one."""
    return (
        plan.decisions.filter(verdict="approved", version__number=plan.version_number)
        .select_related("version", "decided_by")
        .first()
    )


def progress_of(plan: Plan, version: PlanVersion | None) -> Progress:
    """How far the planner is: computing, stopping, ready, empty (nothing to do) or failed (see
    state_reason)."""
    if version is not None:
        return Progress.READY if does_something(version) else Progress.EMPTY
    if plan.state_reason:
        return Progress.FAILED
    return Progress.STOPPING if plan.stop_asked_at else Progress.COMPUTING


def does_something(version: PlanVersion) -> bool:
    """Whether carrying it out changes anything: a pod moves, gives way or asks for less, or a GPU is cut
    anew."""
    body = version.body
    kinds = ("moves", "reconfigurations", "preemptions", "lowerings")
    return any(body.get(kind) for kind in kinds)


def is_search_wanted(*, plan_id: int, number: int) -> bool:
    """Whether anybody still waits for this version: the plan was neither taken back nor edited."""
    return Plan.objects.filter(pk=plan_id, state=PlanState.DRAFT, version_number=number).exists()


def is_stop_asked(*, plan_id: int, number: int) -> bool:
    """Whether the search for this version is to end now, its plan kept or not."""
    wanted = Plan.objects.filter(pk=plan_id, state=PlanState.DRAFT, version_number=number)
    return not wanted.filter(stop_asked_at__isnull=True).exists()


def open_plan(version: PlanVersion) -> PlannerPlan:
    """The planner's own plan, as it was stored."""
    return plan_from_dict(version.body)


def compare_with_now(version: PlanVersion) -> Comparison:
    """Does the version still fit the newest snapshot, and the cluster's policy? Opens snapshots: not for
    inside a transaction."""
    cluster = version.plan.cluster
    newest = clusters.latest_snapshot(cluster)
    if newest is None:
        return Comparison(("no snapshot of the cluster is known any more",), None, None)
    heard = [newest.taken_at, *([cluster.watched_at] if cluster.watched_at else [])]
    plan = open_plan(version)
    forbidden = what_forbids(policy_of(cluster), plan)
    if forbidden:
        return Comparison(tuple(forbidden), newest.pk, max(heard))
    if newest.digest == version.snapshot_digest:
        return Comparison((), newest.pk, max(heard))
    before = clusters.open_snapshot(version.snapshot) if version.snapshot else None
    now = clusters.open_snapshot(newest)
    # What names a fact comes first; the checker then speaks for every rule that has no such sentence.
    changes = what_changed(plan, before, now) or check_plan(now, plan)
    return Comparison(tuple(changes), newest.pk, max(heard))


def drafts_to_compute() -> QuerySet[Plan]:
    """Drafts whose version is still missing and that did not fail."""
    return Plan.objects.filter(state=PlanState.DRAFT, state_reason="").exclude(pk__in=_with_current_version())


def open_plans() -> QuerySet[Plan]:
    """Proposed and approved plans that have not begun: those that can still age."""
    return Plan.objects.filter(
        state__in=[PlanState.PROPOSED, PlanState.APPROVED], begun_at__isnull=True
    ).select_related("cluster")


def _with_current_version() -> QuerySet[Any]:
    return PlanVersion.objects.filter(number=F("plan__version_number")).values("plan_id")
