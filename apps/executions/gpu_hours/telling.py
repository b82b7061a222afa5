"""What is known of an execution's GPU-hours, and the sum over a cluster's executions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from apps.clusters.models import Cluster
from apps.executions import ledger
from apps.executions.gpu_hours.predicting import WINDOW_SECONDS
from apps.executions.gpu_hours.summing import unseen_seconds
from apps.executions.models import Execution, GpuHours

DAYS = 30


class Standing(StrEnum):
    """NOT_YET: nobody has looked so far. MEASURING: as of the last look. KNOWN: the window is over. PARTLY:
    it is, and there were gaps. UNKNOWN: it is over, and nobody looked."""

    NOT_YET = "not_yet"
    MEASURING = "measuring"
    KNOWN = "known"
    PARTLY = "partly"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Told:
    """GPU-hours; None where not known or not foreseen. lost: lost_work until the eviction, lost_away after
    it. won: won_unlocked by pods that the plan unlocked, won_freed by others on nodes that it freed. left:
    pods that left; of these without_checkpoint, and still_away. known_at: 24 h after the end, None while it
    is open. unseen_hours: of the time so far in which nobody looked."""

    standing: Standing
    lost_foreseen: float | None = None
    won_foreseen: float | None = None
    lost: float | None = None
    lost_work: float | None = None
    lost_away: float | None = None
    won: float | None = None
    won_unlocked: float | None = None
    won_freed: float | None = None
    left: int = 0
    without_checkpoint: int = 0
    still_away: int = 0
    looks: int = 0
    looked_at: datetime | None = None
    known_at: datetime | None = None
    unseen_hours: float = 0.0


def tell_hours(execution: Execution) -> Told | None:
    """None for one that never began: it cost nothing."""
    if execution.started_at is None:
        return None
    hours = GpuHours.objects.filter(execution=execution).first()
    return tell(execution.started_at, execution.finished_at, hours, ledger.database_time())


def tell(began: datetime, ended: datetime | None, hours: GpuHours | None, now: datetime) -> Told:
    """Pure. hours: None where no account was begun."""
    known_at = ended + timedelta(seconds=WINDOW_SECONDS) if ended is not None else None
    is_over = known_at is not None and now >= known_at
    until = known_at if known_at is not None and is_over else now
    looks = hours.looks if hours is not None else []
    unseen = unseen_seconds(looks, began.timestamp(), until.timestamp()) / 3600
    sums = hours.sums if hours is not None else {}
    standing = _standing(bool(sums), is_over, unseen)
    lost = sums["work"] + sums["away"] if sums else None
    won = sums["unlocked"] + sums["freed"] if sums else None
    return Told(
        standing,
        lost_foreseen=hours.lost_foreseen if hours is not None else None,
        won_foreseen=hours.won_foreseen if hours is not None else None,
        lost=_rounded(lost),
        lost_work=sums.get("work"),
        lost_away=sums.get("away"),
        won=_rounded(won),
        won_unlocked=sums.get("unlocked"),
        won_freed=sums.get("freed"),
        left=sums.get("left", 0),
        without_checkpoint=sums.get("without_checkpoint", 0),
        still_away=sums.get("still_away", 0),
        looks=len(looks),
        looked_at=hours.looked_at if hours is not None else None,
        known_at=known_at,
        unseen_hours=round(unseen, 2),
    )


def _rounded(hours: float | None) -> float | None:
    return round(hours, 3) if hours is not None else None


def _standing(has_looked: bool, is_over: bool, unseen: float) -> Standing:
    if not has_looked:
        return Standing.UNKNOWN if is_over else Standing.NOT_YET
    if not is_over:
        return Standing.MEASURING
    return Standing.PARTLY if unseen else Standing.KNOWN


@dataclass(frozen=True, slots=True)
class Total:
    """Over executions that ended in the last `days` and touched something. measured: of which the account is
    closed and was looked at; their lost and won, foreseen where the plans did. pending: not closed yet.
    unknown: nobody looked."""

    days: int
    measured: int
    pending: int
    unknown: int
    lost: float
    won: float
    lost_foreseen: float
    won_foreseen: float


def sum_hours(cluster: Cluster, days: int = DAYS) -> Total:
    now = ledger.database_time()
    ended = Execution.objects.filter(
        plan__cluster=cluster, started_at__isnull=False, finished_at__gte=now - timedelta(days=days)
    )
    rows = ended.values_list(
        "finished_at", "hours__closed_at", "hours__sums", "hours__lost_foreseen", "hours__won_foreseen"
    )
    found = list(rows.order_by("pk"))
    known = [(sums, lost, won) for _, closed, sums, lost, won in found if closed and sums]
    recent = now - timedelta(seconds=WINDOW_SECONDS)
    pending = sum(1 for ended_at, closed, *_ in found if not closed and ended_at and ended_at > recent)
    return Total(
        days=days,
        measured=len(known),
        pending=pending,
        unknown=len(found) - len(known) - pending,
        lost=round(sum(sums["work"] + sums["away"] for sums, _, _ in known), 1),
        won=round(sum(sums["unlocked"] + sums["freed"] for sums, _, _ in known), 1),
        lost_foreseen=round(sum(lost or 0.0 for _, lost, _ in known), 1),
        won_foreseen=round(sum(won or 0.0 for _, _, won in known), 1),
    )
