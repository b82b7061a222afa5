"""What would have been: the sums over a cluster's predictions of the last days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import QuerySet

from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.models import Prediction
from apps.executions.shadow.comparing import LOOKS_AFTER
from apps.planner.plan import Goal

DAYS = 7


@dataclass(frozen=True, slots=True)
class Validity:
    """Of plans with moves: how many still fitted `after` seconds later, of the `looked` where it is known."""

    after: int
    valid: int
    looked: int


@dataclass(frozen=True, slots=True)
class Shadow:
    """predictions: of all goals. with_moves: those that had anything to move. evictions: moves of these,
    allowed: as far as their budgets would have let them. freed_nodes: mean of what the newest of each goal
    promised. waited: pods that waited in them (each once); would_start: of these, that a plan would have
    started; started: that started by themselves within the hour, after median_seconds."""

    days: int
    predictions: int
    with_moves: int
    validity: tuple[Validity, ...]
    evictions: int
    allowed: int
    freed_nodes: float
    free_nodes: float
    waited: int
    would_start: int
    started: int
    median_seconds: float | None


def predictions_of(cluster: Cluster) -> QuerySet[Prediction]:
    """Newest first."""
    return Prediction.objects.filter(cluster=cluster).defer("body")


def sum_shadow(cluster: Cluster, days: int = DAYS) -> Shadow:
    since = ledger.database_time() - timedelta(days=days)
    rows = list(Prediction.objects.filter(cluster=cluster, made_at__gte=since).defer("body", "snapshot"))
    moving = [row for row in rows if row.summary.get("moves")]
    freeing = [row for row in rows if row.goal == Goal.FREE_NODES]
    waited = {one["uid"]: one for row in rows for one in row.summary.get("waiting", ())}
    unlocked = {key for row in rows for key in row.summary.get("unlocked", ())}
    started = {one["uid"]: one for row in reversed(rows) for one in row.started}
    return Shadow(
        days=days,
        predictions=len(rows),
        with_moves=len(moving),
        validity=tuple(_validity(moving, after) for after in LOOKS_AFTER),
        evictions=sum(len(row.moves) for row in moving),
        allowed=sum(one["is_allowed"] for row in moving for one in row.moves),
        freed_nodes=_mean([row.summary.get("freed_nodes", 0) for row in freeing]),
        free_nodes=_mean([row.summary.get("free_nodes", 0) for row in freeing]),
        waited=len(waited),
        would_start=sum(one["pod"] in unlocked for one in waited.values()),
        started=len(started),
        median_seconds=median(one["seconds"] for one in started.values()) if started else None,
    )


def _validity(rows: list[Prediction], after: int) -> Validity:
    looks = [
        look for row in rows for look in row.looks if look["after"] == after and not look.get("is_missed")
    ]
    return Validity(after, sum(look["is_valid"] for look in looks), len(looks))


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
