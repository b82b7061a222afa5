"""The rows of a plan's tables: each move, wave by wave, and each pod that gives way without a new place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.times import duration, gpu_time, seconds_since
from apps.planner.plan import Move, Plan, Preemption
from apps.planner.snapshot import Snapshot

RISKS = {"low": "ok", "medium": "warn", "high": "bad"}


@dataclass(frozen=True, slots=True)
class PodLine:
    """pod: "namespace/name" of the pod that leaves."""

    pod: str

    @property
    def pod_name(self) -> str:
        return self.pod.partition("/")[2] or self.pod

    @property
    def namespace(self) -> str:
        return self.pod.partition("/")[0]


@dataclass(frozen=True, slots=True)
class MoveLine(PodLine):
    """dry_run: (word, tone) or None while nobody asked the API server."""

    move: Move
    mark: Mark | None
    dry_run: tuple[str, str] | None
    dry_run_message: str
    grace: str
    checkpoint: str
    cost: str
    risk_tone: str


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    moves: int
    lines: tuple[MoveLine, ...]


def list_waves(
    plan: Plan, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_runs: Mapping[str, Any]
) -> list[Wave]:
    """dry_runs: rows of the eviction dry run by pod uid."""
    waves: dict[int, list[MoveLine]] = {}
    for move in plan.moves:
        waves.setdefault(move.wave, []).append(_move_line(move, snapshot, marks, dry_runs.get(move.pod_uid)))
    return [Wave(number, len(lines), tuple(lines)) for number, lines in sorted(waves.items())]


@dataclass(frozen=True, slots=True)
class PreemptionLine(PodLine):
    """dry_run: as of a move. lost: the running time that is gone, and since what; older plans do not tell."""

    preemption: Preemption
    mark: Mark | None
    dry_run: tuple[str, str] | None
    dry_run_message: str
    grace: str
    cost: str
    lost: str = ""

    @property
    def why_cheap(self) -> str:
        """What else was weighed: its gang's minimum stays, and what its disruption budgets still allow."""
        one = self.preemption
        gang = f"of gang {one.gang}, whose least number of members stays" if one.gang else ""
        return "; ".join(filter(None, [gang, one.budget]))


def list_preemptions(
    plan: Plan, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_runs: Mapping[str, Any]
) -> list[PreemptionLine]:
    return [
        _preemption_line(one, snapshot, marks, dry_runs.get(one.pod_uid))
        for one in sorted(plan.preemptions, key=lambda one: one.order)
    ]


def _preemption_line(
    one: Preemption, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_run: Any
) -> PreemptionLine:
    pod = snapshot.pods.get(one.pod_uid) if snapshot else None
    return PreemptionLine(
        pod=one.pod,
        preemption=one,
        mark=marks.get(one.pod_uid),
        dry_run=_verdict(dry_run),
        dry_run_message=dry_run.message if dry_run is not None else "",
        grace=duration(pod.grace_seconds) if pod is not None else "not known",
        cost=gpu_time(one.cost),
        lost=tell_lost(one),
    )


def tell_lost(one: Preemption) -> str:
    """ "40 min since its checkpoint"; "" where the plan does not tell."""
    if not one.lost_seconds:
        return ""
    since = "since its checkpoint" if one.has_checkpoint else "since its start, no checkpoint is known"
    return f"{duration(one.lost_seconds)} {since}"


def _verdict(dry_run: Any) -> tuple[str, str] | None:
    if dry_run is None:
        return None
    return ("passes", "ok") if dry_run.allowed else ("refused", "bad")


def _move_line(move: Move, snapshot: Snapshot | None, marks: Mapping[str, Mark], dry_run: Any) -> MoveLine:
    pod = snapshot.pods.get(move.pod_uid) if snapshot else None
    checkpoint = "not known"
    if pod is not None:
        since = seconds_since(pod.checkpointed_at)
        checkpoint = f"{duration(since)} ago" if since is not None else "none known"
    return MoveLine(
        pod=move.pod,
        move=move,
        mark=marks.get(move.pod_uid),
        dry_run=_verdict(dry_run),
        dry_run_message=dry_run.message if dry_run is not None else "",
        grace=duration(pod.grace_seconds) if pod is not None else "not known",
        checkpoint=checkpoint,
        cost=gpu_time(move.cost),
        risk_tone=RISKS.get(move.risk_level, "warn"),
    )
