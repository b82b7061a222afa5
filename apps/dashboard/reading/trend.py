"""The trend of one cluster, pool or model as the Fragmentation page needs it: points, runs, gaps, plans.

A run is a time in which somebody saw the cluster all along. Between runs nothing is known, and
nothing is drawn: no data is not zero. Words for it stand in `trend_words`, pixels in `drawings.trend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from apps.accounts.models import User
from apps.clusters.models import Cluster, Snapshot
from apps.executions.models import Execution
from apps.executions.queries import executions_for
from apps.executions.states import ExecutionState
from apps.fragmentation.models import Report
from apps.fragmentation.trends import RANGES, Scope, TrendPoint, trend_of

MARKED = {
    ExecutionState.SUCCEEDED: "carried out",
    ExecutionState.CANCELLED: "cancelled",
    ExecutionState.ROLLED_BACK: "rolled back",
}
SHORT_RANGES = ("1h", "6h")
DEFAULT_RANGE = "24h"


@dataclass(frozen=True, slots=True)
class Sample:
    """What was known from `at` on; the values of `point` hold until the next sample of the run."""

    at: datetime
    point: TrendPoint


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which nothing is known. why: "not seen" or "not measured yet"."""

    begin: datetime
    end: datetime
    why: str


@dataclass(frozen=True, slots=True)
class PlanMark:
    """A plan that was carried out in the range. lost: GPUs lost to fragmentation, None where unseen."""

    execution_id: int
    plan_id: int
    title: str
    word: str
    began_at: datetime
    at: datetime
    lost_before: float | None
    lost_after: float | None
    promised: str
    kept: bool | None


@dataclass(frozen=True, slots=True)
class Trend:
    """since, until: the edges of the picture. runs: samples without a gap in between, oldest first."""

    span: str
    scope: Scope
    since: datetime
    until: datetime
    points: Sequence[TrendPoint]
    runs: Sequence[Sequence[Sample]]
    gaps: Sequence[Gap]
    marks: Sequence[PlanMark]

    @property
    def first(self) -> TrendPoint | None:
        return self.points[0] if self.points else None

    @property
    def last(self) -> TrendPoint | None:
        return self.points[-1] if self.points else None

    @property
    def known_since(self) -> datetime:
        return self.runs[0][0].at if self.runs else self.since

    @property
    def unseen(self) -> timedelta:
        """How much of the time since the first measure nobody saw the cluster."""
        lost = (gap.end - gap.begin for gap in self.gaps if gap.why == "not seen")
        return sum(lost, timedelta())

    @property
    def is_stale(self) -> bool:
        return bool(self.gaps) and self.gaps[-1].why == "not seen" and self.gaps[-1].end == self.until


def choose_range(asked: str, cluster: Cluster) -> str:
    """What the address asks for; otherwise a day, or less where there is less to see."""
    if asked in RANGES:
        return asked
    first = (
        Report.objects.filter(cluster=cluster).order_by("measured_at").values_list("measured_at", flat=True)
    )
    begun = first.first()
    age = timezone.now() - begun if begun else timedelta()
    return next((key for key in SHORT_RANGES if begun and age < RANGES[key]), DEFAULT_RANGE)


def read_trend(user: User, cluster: Cluster, row: Snapshot | None, span: str, scope: Scope) -> Trend:
    """row: the newest snapshot; its report goes on for as long as the cluster is seen unchanged."""
    until = timezone.now()
    since = until - RANGES[span]
    points = trend_of(cluster, span, until=until, scope=scope)
    runs = _split(points, since, until, row)
    return Trend(
        span=span,
        scope=scope,
        since=since,
        until=until,
        points=points,
        runs=runs,
        gaps=_gaps(runs, since, until),
        marks=_marks(user, cluster, since, points),
    )


def _split(
    points: Sequence[TrendPoint], since: datetime, until: datetime, row: Snapshot | None
) -> list[list[Sample]]:
    runs: list[list[Sample]] = []
    for at, point in enumerate(points):
        if point.after_gap or not runs:
            runs.append([])
        runs[-1].append(Sample(max(point.measured_at, since), point))
        is_last = at == len(points) - 1
        if is_last or points[at + 1].after_gap:
            seen = point.seen_until
            if is_last and row is not None and row.pk == point.snapshot_id:
                seen = max(seen, row.taken_at)
            runs[-1].append(Sample(min(max(seen, runs[-1][-1].at), until), point))
    return runs


def _gaps(runs: Sequence[Sequence[Sample]], since: datetime, until: datetime) -> list[Gap]:
    stale = timedelta(seconds=settings.SNAPSHOT_STALE_SECONDS)
    if not runs:
        return [Gap(since, until, "not measured")]
    gaps = [
        Gap(before[-1].at, after[0].at, "not seen") for before, after in zip(runs, runs[1:], strict=False)
    ]
    if runs[0][0].at - since > stale:
        gaps.insert(0, Gap(since, runs[0][0].at, "not measured yet"))
    if until - runs[-1][-1].at > stale:
        gaps.append(Gap(runs[-1][-1].at, until, "not seen"))
    return gaps


def _marks(user: User, cluster: Cluster, since: datetime, points: Sequence[TrendPoint]) -> list[PlanMark]:
    found = executions_for(user, cluster).filter(finished_at__gte=since, state__in=list(MARKED))
    return [_mark(execution, points) for execution in found.order_by("finished_at", "pk")]


def _mark(execution: Execution, points: Sequence[TrendPoint]) -> PlanMark:
    ended = execution.finished_at or execution.created_at
    began = execution.started_at or execution.created_at
    before = next((point for point in reversed(points) if point.measured_at <= began), None)
    after = next((point for point in points if point.seen_until >= ended), None)
    outcome = execution.outcome or {}
    return PlanMark(
        execution_id=execution.pk,
        plan_id=execution.plan_id,
        title=execution.plan.title,
        word=MARKED[ExecutionState(execution.state)],
        began_at=began,
        at=ended,
        lost_before=before.fragmentation_milli if before else None,
        lost_after=after.fragmentation_milli if after else None,
        promised="; ".join(outcome.get("promised", ())),
        kept=outcome.get("matches"),
    )
