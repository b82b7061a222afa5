"""A long history in few points. What the pages draw and the API answers comes from here.

A report holds from the moment it was measured until its snapshot was last seen to be true
(`seen_until`), so a quiet hour is one report and not a hole. Where nobody saw the cluster for
longer than `gap`, the next point says so: not known is not zero, and not what was before either.

Thinning keeps reports as they are and never averages: of each bucket of time the worst and the
best, by lost capacity and by the largest gang, and both edges of every gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import (
    BigIntegerField,
    DateTimeField,
    F,
    FloatField,
    Func,
    JSONField,
    Q,
    QuerySet,
    Value,
    Window,
)
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Lag, Lead, RowNumber

from apps.clusters.models import Cluster
from apps.fragmentation.models import Report
from apps.fragmentation.points import TrendPoint

RANGES = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
BUCKETS = 72
"""Times four picks a bucket: under 300 points."""
TICKS = 720
REMEMBERED_FROM = 60.0
"""Ranges whose tick is shorter (seconds) are read anew each time; that takes a blink."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which nodes are meant; empty means all. A pool or model may be called anything but ""."""

    pool: str = ""
    model: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """Where a report's body keeps it."""
        if self.pool and self.model:
            return ("pools_by_model", self.pool, self.model)
        if self.pool:
            return ("pools", self.pool)
        return ("models", self.model) if self.model else ()


def gap_of(span: timedelta) -> timedelta:
    """From how long on unseen time counts as a gap: what a page calls stale, or too short to be drawn."""
    return max(timedelta(seconds=settings.SNAPSHOT_STALE_SECONDS), span / (4 * BUCKETS))


def trend_of(cluster: Cluster, span: str, *, until: datetime, scope: Scope = Scope()) -> list[TrendPoint]:
    """The trend over one of RANGES, oldest first. What is long past is remembered for a while.

    Thinning a month takes seconds and a page asks again with every report, so of a long range only
    what came after the last tick is read anew. Ticks are a 720th of the range: less than a pixel.
    """
    length = RANGES[span]
    since = until - length
    tick = datetime.fromtimestamp(until.timestamp() // _tick(length) * _tick(length), UTC)
    if _tick(length) < REMEMBERED_FROM:
        return thinned(cluster, since=since, until=until, scope=scope)
    settled = _settled(cluster.pk, span, scope, tick)
    fresh = thinned(cluster, since=tick, until=until, scope=scope, span=length)
    return [point for point in _join(settled, fresh, gap_of(length)) if point.seen_until >= since]


def _tick(length: timedelta) -> float:
    return length.total_seconds() / TICKS


@lru_cache(maxsize=32)
def _settled(cluster_id: int, span: str, scope: Scope, tick: datetime) -> list[TrendPoint]:
    cluster = Cluster(pk=cluster_id)
    return thinned(cluster, since=tick - RANGES[span], until=tick, scope=scope)


def _join(settled: list[TrendPoint], fresh: list[TrendPoint], gap: timedelta) -> list[TrendPoint]:
    """fresh begins with the report that held at the tick, if one did: then it stands in both."""
    if not fresh or not settled:
        return settled + fresh
    again = {point.report_id for point in fresh}
    known = {point.report_id: point.after_gap for point in settled}
    kept = [point for point in settled if point.report_id not in again]
    first, ended = fresh[0], (kept or settled)[-1].seen_until
    after_gap = known.get(first.report_id, first.measured_at - ended > gap)
    return [*kept, replace(first, after_gap=after_gap), *fresh[1:]]


def thinned(
    cluster: Cluster,
    *,
    since: datetime,
    until: datetime,
    scope: Scope = Scope(),
    span: timedelta | None = None,
) -> list[TrendPoint]:
    """The trend from `since` to `until`, oldest first; about 300 points at most in each `span` (all of it).

    The first one may be older: the report that still held at `since`.
    """
    span = span or until - since
    begin = _holding_at(cluster, since)
    found = Report.objects.filter(cluster=cluster, measured_at__gte=begin, measured_at__lte=until)
    picked = _pick(found, scope, span / BUCKETS, gap_of(span))
    rows = with_part(Report.objects.filter(pk__in=picked).order_by("measured_at", "pk"), scope)
    return [as_point(row, after_gap=picked[row.pk]) for row in rows]


def with_part(reports: QuerySet[Report], scope: Scope) -> QuerySet[Report]:
    """The reports that know the scope, with its `part` and (`before`) when the report before ended."""
    before = Window(Lag("seen_until"), order_by=["measured_at", "pk"])
    return reports.defer("body").annotate(part=_part(scope), before=before).filter(part__isnull=False)


def as_point(row: Any, *, after_gap: bool | None = None) -> TrendPoint:
    """row: of `with_part`. Without `after_gap` what a page calls stale is a gap."""
    if after_gap is None:
        stale = timedelta(seconds=settings.SNAPSHOT_STALE_SECONDS)
        after_gap = row.before is not None and row.measured_at - row.before > stale
    return TrendPoint(row.pk, row.snapshot_id, row.measured_at, row.seen_until, row.part, after_gap)


def known_scopes(report: Report | None) -> tuple[list[str], list[str]]:
    """The pools and the models that a report tells apart; nodes without a name are in neither list."""
    body = report.body if report else {}
    return (
        sorted(name for name in body.get("pools", {}) if name),
        sorted(name for name in body.get("models", {}) if name),
    )


def _holding_at(cluster: Cluster, moment: datetime) -> datetime:
    """When the report that holds at `moment` was measured; `moment` itself where there is none."""
    before = Report.objects.filter(cluster=cluster, measured_at__lte=moment).order_by("-measured_at")
    row = before.values_list("measured_at", "seen_until").first()
    return row[0] if row is not None and row[1] >= moment else moment


def _pick(reports: QuerySet[Report], scope: Scope, width: timedelta, gap: timedelta) -> dict[int, bool]:
    """Report id -> whether a gap ends there."""
    lost, gang = _lost(scope), _gang(scope)
    bucket = Func(
        Value(width),
        F("measured_at"),
        function="date_bin",
        template="%(function)s(%(expressions)s, TIMESTAMPTZ 'epoch')",
        output_field=DateTimeField(),
    )
    rows = (
        reports.annotate(lost=lost, gang=gang, bucket=bucket)
        .filter(lost__isnull=False)
        .annotate(
            worst=_place("-lost"), best=_place("lost"), widest=_place("-gang"), narrowest=_place("gang"),
            before=Window(Lag("seen_until"), order_by=["measured_at", "pk"]),
            after=Window(Lead("measured_at"), order_by=["measured_at", "pk"]),
        )
        .filter(
            Q(worst=1) | Q(best=1) | Q(widest=1) | Q(narrowest=1)
            | Q(before__isnull=True) | Q(after__isnull=True)
            | Q(before__lt=F("measured_at") - gap) | Q(seen_until__lt=F("after") - gap)
        )
    )  # fmt: skip
    picked = rows.values_list("pk", "measured_at", "before")
    return {pk: before is not None and at - before > gap for pk, at, before in picked}


def _place(order: str) -> Window:
    return Window(RowNumber(), partition_by=[F("bucket")], order_by=[order, "measured_at", "pk"])


def _lost(scope: Scope) -> Any:
    if not scope.path:
        return F("fragmentation_milli")
    return Cast(_text(*scope.path, "fragmentation_milli"), FloatField())


def _gang(scope: Scope) -> Any:
    pods = Cast(_text(*scope.path, "largest_gang", "pods"), BigIntegerField())
    return pods * Cast(_text(*scope.path, "largest_gang", "gpus_per_pod"), BigIntegerField())


def _part(scope: Scope) -> Any:
    if not scope.path:
        lists = [Value(key) for key in ("nodes", "pools", "models", "pools_by_model")]
        return Func(
            F("body"),
            *lists,
            template="(%(expressions)s)",
            arg_joiner=" - ",
            output_field=JSONField(),
        )
    found: Any = "body"
    for key in scope.path:
        found = KeyTransform(key, found)
    return found


def _text(*path: str) -> Any:
    found: Any = "body"
    for key in path[:-1]:
        found = KeyTransform(key, found)
    return KeyTextTransform(path[-1], found)
