"""What a cluster's preflight and its time in shadow say, as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from apps.clusters.models import Cluster
from apps.dashboard.reading.times import duration
from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.models import ClusterSafety, Prediction
from apps.executions.safe_mode import mark_of, row_in_safe_mode
from apps.executions.shadow.telling import Shadow

CHIPS = {
    Standing.OK: ("ok", "ok"),
    Standing.TOLD: ("note", ""),
    Standing.WARNING: ("warning", "warn"),
    Standing.PLANNED_ONLY: ("planned only", "warn"),
    Standing.UNKNOWN: ("not known", "bad"),
}
GOALS = {"unlock": "start what waits", "free-nodes": "free nodes"}


@dataclass(frozen=True, slots=True)
class ShownLine:
    """word, tone: of its chip."""

    word: str
    tone: str
    line: Line


@dataclass(frozen=True, slots=True)
class Safe:
    """mark: of the list that is shown."""

    row: ClusterSafety
    mark: str


def tell_safe(cluster: Cluster) -> Safe | None:
    """None where the cluster is not in safe mode."""
    row = row_in_safe_mode(cluster)
    return Safe(row, mark_of(row.safe_found)) if row is not None else None


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownPrediction:
    row: Prediction
    goal: str
    looks: tuple[tuple[str, str, str], ...]
    """when, word, tone"""


def group_lines(lines: Iterable[Line]) -> list[tuple[str, list[ShownLine]]]:
    """By subject, in the order of the preflight."""
    return [
        (subject, [ShownLine(*CHIPS[line.standing], line) for line in group])
        for subject, group in groupby(lines, key=lambda line: line.subject)
    ]


def planned_only(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line.standing == Standing.PLANNED_ONLY]


def tell_shadow(told: Shadow) -> list[Fact]:
    """The sums in words. A number without anything behind it says so."""
    share = f"{told.allowed} of {told.evictions}" if told.evictions else "none"
    median = duration(told.median_seconds) if told.median_seconds is not None else "none did"
    return [
        Fact(
            "Plans made",
            str(told.predictions),
            f"in {told.days} days; {told.with_moves} had something to move",
        ),
        *(
            Fact(
                f"Still right after {one.after // 60} min",
                f"{one.valid} of {one.looked}" if one.looked else "not known yet",
                "of the plans with moves",
            )
            for one in told.validity
        ),
        Fact("Evictions allowed", share, "computed from disruption budgets: a reader may not even try"),
        Fact(
            "Free nodes",
            f"{told.free_nodes:.1f} + {told.freed_nodes:.1f}",
            "there were, and the plans would have freed, on average",
        ),
        Fact("Pods that waited", str(told.waited), f"a plan would have started {told.would_start}"),
        Fact("Started by themselves", str(told.started), f"within the hour; half of them after {median}"),
    ]


def list_predictions(rows: Iterable[Prediction]) -> list[ShownPrediction]:
    return [
        ShownPrediction(row, GOALS.get(row.goal, row.goal), tuple(_look(one) for one in row.looks))
        for row in rows
    ]


def _look(look: dict[str, object]) -> tuple[str, str, str]:
    when = f"{int(str(look['after'])) // 60} min"
    if look.get("is_missed"):
        return when, "not seen", ""
    return (when, "right", "ok") if look.get("is_valid") else (when, "stale", "warn")
