"""Reads how long pods waited, ran and took to start: trends for people, lengths for the planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db.models import Aggregate, Count, Expression, F, FloatField, Func, IntegerField, QuerySet, Value
from django.db.models.functions import Greatest

from apps.clusters.models import Cluster
from apps.fragmentation.trends import RANGES
from apps.pending.models import Stay
from apps.planner.run_lengths import MOST_RUNS
from apps.planner.start_times import group_starts

POINTS = 24
NONE_STARTED = (0, 0, None, None)
MOST_LENGTHS = 5000


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """Of the pods that got their node from `since` until `until`. Seconds; None where none did."""

    since: datetime
    until: datetime
    started: int
    p50_seconds: float | None
    p90_seconds: float | None


@dataclass(frozen=True, slots=True)
class WaitTrend:
    """One queue (or namespace) and one shape. started: pods, and of how many gangs and single pods; each pod
    of a gang counts. left: pods that went without ever getting a node."""

    queue: str
    shape: str
    started: int
    workloads: int
    p50_seconds: float | None
    p90_seconds: float | None
    left: int = 0
    points: tuple[WaitPoint, ...] = field(default=())


def wait_trends(
    cluster: Cluster, *, span: str, until: datetime, queue: str = "", shape: str = ""
) -> list[WaitTrend]:
    """One per queue and shape, those with the most starts first. span: one of RANGES. All rows of the range
    count, however many: the database adds them up."""
    since = until - RANGES[span]
    rows = Stay.objects.filter(cluster=cluster)
    rows = rows.filter(**{name: value for name, value in (("queue", queue), ("shape", shape)) if value})
    begun = rows.filter(placed_at__gt=since, placed_at__lte=until).annotate(wait=WAIT).order_by()
    every = {(of, what): told for of, what, *told in _summed(begun, "queue", "shape")}
    parts: dict[tuple[str, str], dict[int, list[Any]]] = defaultdict(dict)
    for of, what, part, *told in _summed(begun.annotate(part=_part(since, until)), "queue", "shape", "part"):
        parts[of, what][part] = told
    lost = rows.filter(placed_at=None, ended_at__gt=since, ended_at__lte=until).order_by()
    left = {(of, what): n for of, what, n in lost.values_list("queue", "shape").annotate(n=Count("pk"))}
    edges = [since + (until - since) * at / POINTS for at in range(POINTS + 1)]
    trends = []
    for key in sorted({*every, *left}):
        started, workloads, half, slow = every.get(key, NONE_STARTED)
        told = [parts[key].get(at, NONE_STARTED) for at in range(POINTS)]
        points = tuple(_point(*edge, one) for edge, one in zip(pairwise(edges), told, strict=True))
        trends.append(WaitTrend(*key, started, workloads, half, slow, left.get(key, 0), points))
    return sorted(trends, key=lambda one: (-one.started, -one.left))


def _summed(rows: QuerySet[Stay], *by: str) -> QuerySet[Stay, tuple[Any, ...]]:
    """By these: pods, workloads, and the waits that half and nine in ten of the pods had at most."""
    counts = {"pods": Count("pk"), "workloads": Count("workload", distinct=True)}
    waits = {"half": _NearestRank("wait", share=0.5), "slow": _NearestRank("wait", share=0.9)}
    return rows.values_list(*by).annotate(**counts, **waits)


class _NearestRank(Aggregate):
    """A wait that was really seen: the least that so large a share of them did not pass."""

    function = "percentile_disc"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def _seconds(moment: Any) -> Func:
    return Func(moment, function="EXTRACT", template="EXTRACT(EPOCH FROM %(expressions)s)::float8")


WAIT = Greatest(Value(0.0), _seconds(F("placed_at") - F("asked_at")), output_field=FloatField())


def _part(since: datetime, until: datetime) -> Expression:
    """The number of the stretch in which it began, from 0; a moment between two belongs to the earlier."""
    ends = (Value(-until.timestamp()), Value(-since.timestamp()), Value(POINTS))
    backwards = Func(_seconds(F("placed_at")) * Value(-1.0), *ends, function="width_bucket")
    return Greatest(Value(0), Value(POINTS) - backwards, output_field=IntegerField())


def _point(begin: datetime, end: datetime, told: Sequence[Any]) -> WaitPoint:
    started, _, half, slow = told
    return WaitPoint(begin, end, started, half, slow)


def known_runs(cluster: Cluster) -> dict[str, tuple[float, ...]]:
    """Lengths of the newest runs that came to their own end, by their kind."""
    rows = Stay.objects.filter(cluster=cluster, outcome=Stay.Outcome.SUCCEEDED, placed_at__isnull=False)
    found: dict[str, list[float]] = defaultdict(list)
    newest = rows.order_by("-ended_at").values_list("kind", "placed_at", "ended_at")
    for kind, placed, ended in newest[:MOST_LENGTHS]:
        if len(found[kind]) < MOST_RUNS and ended is not None and placed is not None:
            found[kind].append(max(0.0, (ended - placed).total_seconds()))
    return {kind: tuple(sorted(lengths)) for kind, lengths in found.items()}


def known_starts(cluster: Cluster) -> dict[tuple[str, str], tuple[float, ...]]:
    """Seconds from place to Ready of the newest starts, by image and node."""
    rows = Stay.objects.filter(cluster=cluster, placed_at__isnull=False, ready_at__isnull=False)
    newest = (
        rows.exclude(image="").order_by("-placed_at").values_list("image", "node", "placed_at", "ready_at")
    )
    return group_starts(
        (image, node, (ready - placed).total_seconds())
        for image, node, placed, ready in newest[:MOST_LENGTHS]
        if placed is not None and ready is not None
    )
