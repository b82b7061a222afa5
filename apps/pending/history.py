"""Reads how long pods waited, ran and took to start: trends for people, lengths for the planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from apps.clusters.models import Cluster
from apps.fragmentation.trends import RANGES
from apps.pending.models import Stay
from apps.planner.run_lengths import MOST_RUNS
from apps.planner.start_times import group_starts

POINTS = 24
MOST_READ = 50_000
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
    """One queue (or namespace) and one shape. left: pods that went without ever getting a node."""

    queue: str
    shape: str
    started: int
    left: int
    p50_seconds: float | None
    p90_seconds: float | None
    points: tuple[WaitPoint, ...] = field(default=())


def wait_trends(
    cluster: Cluster, *, span: str, until: datetime, queue: str = "", shape: str = ""
) -> list[WaitTrend]:
    """One per queue and shape, those with the most starts first. span: one of RANGES."""
    since = until - RANGES[span]
    rows = Stay.objects.filter(cluster=cluster)
    rows = rows.filter(**{name: value for name, value in (("queue", queue), ("shape", shape)) if value})
    waits: dict[tuple[str, str], list[tuple[datetime, float]]] = defaultdict(list)
    found = rows.filter(placed_at__gt=since, placed_at__lte=until).order_by("-placed_at")
    for of, what, asked, placed in found.values_list("queue", "shape", "asked_at", "placed_at")[:MOST_READ]:
        if placed is not None:
            waits[of, what].append((placed, max(0.0, (placed - asked).total_seconds())))
    left: dict[tuple[str, str], int] = defaultdict(int)
    lost = rows.filter(placed_at=None, ended_at__gt=since, ended_at__lte=until)
    for of, what in lost.values_list("queue", "shape")[:MOST_READ]:
        left[of, what] += 1
    edges = [since + (until - since) * at / POINTS for at in range(POINTS + 1)]
    trends = [_trend(key, waits[key], left[key], edges) for key in sorted({*waits, *left})]
    return sorted(trends, key=lambda one: (-one.started, -one.left))


def _trend(
    key: tuple[str, str], waits: Sequence[tuple[datetime, float]], left: int, edges: Sequence[datetime]
) -> WaitTrend:
    points = []
    for begin, end in pairwise(edges):
        here = [seconds for at, seconds in waits if begin < at <= end]
        points.append(WaitPoint(begin, end, len(here), percentile(here, 50), percentile(here, 90)))
    every = [seconds for _, seconds in waits]
    return WaitTrend(
        *key, len(every), left, percentile(every, 50), percentile(every, 90), points=tuple(points)
    )


def percentile(values: Iterable[float], percent: int) -> float | None:
    """The nearest rank: a value that was really seen."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


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
