"""Looks every quarter of an hour what became of an execution, until 24 h after its end, and keeps the
account.

Goes by the ledger and the newest snapshot that the console has anyway. Where that is old (the cluster is not
watched, the console was down) nothing is looked at, and the time counts as not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.gpu_hours import gaining, losing, summing
from apps.executions.gpu_hours.predicting import WINDOW_SECONDS, foresee
from apps.executions.models import Execution, GpuHours, Step
from apps.executions.rounds import act_on_each
from apps.executions.sightings import moment
from apps.executions.states import StepKind, StepState
from apps.executions.verifying import find_successors
from apps.planner.snapshot import Snapshot
from apps.plans import queries as plans

EVERY_SECONDS = 900.0
OLDEST_PICTURE_SECONDS = 120.0


def measure_due() -> int:
    """How many executions were looked at."""
    now = ledger.database_time()
    act_on_each(_not_begun(now), _begin)
    due = GpuHours.objects.filter(closed_at=None).filter(
        Q(looked_at=None) | Q(looked_at__lte=now - timedelta(seconds=EVERY_SECONDS))
    )
    return sum(act_on_each(due.values_list("pk", flat=True), _look))


def _not_begun(now: datetime) -> list[Execution]:
    """Those with steps that are open or not so long ended that nothing can be seen any more."""
    recent = Q(finished_at=None) | Q(finished_at__gt=now - timedelta(seconds=WINDOW_SECONDS))
    rows = Execution.objects.filter(recent, started_at__isnull=False, hours=None)
    return list(rows.select_related("version__snapshot", "plan__cluster").order_by("pk"))


def _begin(execution: Execution) -> None:
    """Of a plan whose picture is gone nothing can be foreseen; what is gained is seen all the same."""
    plan, row = plans.open_plan(execution.version), execution.version.snapshot
    before = clusters.open_snapshot(row) if row is not None else Snapshot("", 0.0)
    foreseen = foresee(plan, before) if row is not None else None
    GpuHours.objects.get_or_create(
        execution=execution,
        defaults={
            "lost_foreseen": foreseen.lost if foreseen is not None else None,
            "won_foreseen": foreseen.won if foreseen is not None else None,
            "losses": [one.as_json() for one in losing.begin_losses(plan, before)],
            "room": gaining.room_of(plan, before).as_json(),
        },
    )


@transaction.atomic
def _look(pk: int) -> bool:
    """False where another worker is at it, or nothing fresh is known. Doing it twice changes nothing."""
    rows = GpuHours.objects.select_for_update(skip_locked=True, of=("self",))
    hours = rows.select_related("execution__plan__cluster").filter(pk=pk, closed_at=None).first()
    if hours is None:
        return False
    now = ledger.database_time()
    execution = hours.execution
    ends_at = _ends_at(execution)
    seen = _see(execution.plan.cluster, now)
    if seen is not None:
        _account(hours, execution, seen, now if ends_at is None else min(now, ends_at))
        hours.looked_at = now
        hours.looks.append(now.timestamp())
    if ends_at is not None and now >= ends_at:
        hours.closed_at = now
    hours.save()
    return seen is not None


def _ends_at(execution: Execution) -> datetime | None:
    """None while the execution is open."""
    ended = execution.finished_at
    return ended + timedelta(seconds=WINDOW_SECONDS) if ended is not None else None


def _see(cluster: Cluster, now: datetime) -> Snapshot | None:
    row = clusters.latest_snapshot(cluster)
    if row is None:
        return None
    seen = max(row.taken_at, cluster.watched_at or row.taken_at)
    is_fresh = (now - seen).total_seconds() <= OLDEST_PICTURE_SECONDS
    return clusters.open_snapshot(row) if is_fresh else None


def _account(hours: GpuHours, execution: Execution, picture: Snapshot, until: datetime) -> None:
    steps = list(execution.steps.all())
    at = until.timestamp()
    losses = losing.with_ledger([losing.Loss(**one) for one in hours.losses], read_departures(steps))
    hours.losses = [one.as_json() for one in losing.with_look(losses, picture, at)]
    known = {uid: gaining.Gain(**one) for uid, one in hours.gains.items()}
    gains = gaining.with_look(
        known,
        gaining.read_room(hours.room),
        picture,
        since=execution.started_at.timestamp() if execution.started_at is not None else at,
        until=at,
        moved=frozenset(find_successors(steps).values()),
    )
    hours.gains = {uid: one.as_json() for uid, one in gains.items()}
    hours.sums = summing.sum_up([losing.Loss(**one) for one in hours.losses], list(gains.values()))


LEFT = (StepKind.EVICT_POD, StepKind.PREEMPT_POD)


def read_departures(steps: Sequence[Step]) -> dict[str, losing.Departure]:
    """Pure: by UID, each pod whose eviction is known to have gone out, and when one of its own was Ready."""
    back = {step.params["uid"]: step.finished_at for step in steps if _is_landed(step)}
    saved = {step.params["uid"]: _saved_at(step) for step in steps if step.kind == StepKind.CHECKPOINT}
    found = {}
    for step in steps:
        left_at = step.issued_at or step.finished_at
        if step.kind in LEFT and step.state == StepState.VERIFIED and left_at is not None:
            uid = step.params["uid"]
            landed = back.get(uid)
            found[uid] = losing.Departure(
                left_at.timestamp(), landed.timestamp() if landed is not None else None, saved.get(uid)
            )
    return found


def _is_landed(step: Step) -> bool:
    return step.kind == StepKind.AWAIT_REPLACEMENT and step.state == StepState.VERIFIED


def _saved_at(step: Step) -> float | None:
    told: dict[str, Any] = step.observed.get("seen", {})
    at = moment(told.get("checkpointed_at", ""))
    return at.timestamp() if at is not None else None
