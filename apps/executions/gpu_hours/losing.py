"""The account of what moved pods lose: work since the last checkpoint, then the time until one of their own
runs again. Pure: the ledger and one picture after the other in, a new account out.

The ledger knows to the second when a pod was evicted and when its replacement was Ready. Only of pods without
a verified replacement (they gave way, or the execution stopped) it takes looks: then one is back when its
workload has as many running pods as before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from apps.executions.gpu_hours.predicting import gpus_of, leaving_pods
from apps.planner.costs import DEFAULT_COSTS, HOUR
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Departure:
    """One pod as the ledger has it; epoch seconds. back_at: its replacement was Ready. saved_at: its
    checkpoint, where it was asked for one."""

    evicted_at: float
    back_at: float | None = None
    saved_at: float | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """One pod that leaves. saved_at: since when its work is lost: its last checkpoint, else its start.
    siblings: running pods of its workload before. has_owner: the picture tells of its workload. away_until:
    the last look at which it was missing. is_given_up: its workload is gone or wants fewer pods, so nobody
    waits for it."""

    uid: str
    pod: str
    workload: str
    gpus: float
    saved_at: float
    has_checkpoint: bool
    siblings: int
    has_owner: bool
    evicted_at: float | None = None
    back_at: float | None = None
    away_until: float | None = None
    is_given_up: bool = False

    @property
    def is_open(self) -> bool:
        """It left, and nobody has seen it back."""
        return self.evicted_at is not None and self.back_at is None and not self.is_given_up

    @property
    def work_hours(self) -> float:
        """GPU-hours of work that is gone."""
        if self.evicted_at is None:
            return 0.0
        lost = min(max(0.0, self.evicted_at - self.saved_at), DEFAULT_COSTS.most_lost_seconds)
        return self.gpus * lost / HOUR

    @property
    def away_hours(self) -> float:
        """GPU-hours between the eviction and its replacement, as far as known."""
        until = self.back_at or self.away_until
        if self.evicted_at is None or until is None:
            return 0.0
        return self.gpus * max(0.0, until - self.evicted_at) / HOUR

    def as_json(self) -> Json:
        return asdict(self)


def begin_losses(plan: Plan, before: Snapshot) -> list[Loss]:
    """before: the picture that the plan was made from. Pods without GPUs lose no GPU-hours."""
    siblings = _running(before)
    found = []
    for pod in leaving_pods(plan, before):
        started = pod.started_at if pod.started_at is not None else pod.created_at
        saved = pod.checkpointed_at if pod.checkpointed_at is not None else started
        has_checkpoint = pod.checkpointed_at is not None
        if gpus_of(pod):
            count, is_known = max(siblings[pod.workload], 1), pod.workload in before.workloads
            found.append(
                Loss(pod.uid, pod.key, pod.workload, gpus_of(pod), saved, has_checkpoint, count, is_known)
            )
    return found


def with_ledger(losses: Iterable[Loss], departures: Mapping[str, Departure]) -> list[Loss]:
    """departures: by pod UID, of those whose eviction went out."""
    return [_departed(one, departures[one.uid]) if one.uid in departures else one for one in losses]


def _departed(one: Loss, known: Departure) -> Loss:
    one = replace(one, evicted_at=known.evicted_at)
    if known.back_at is not None:
        one = replace(one, back_at=known.back_at)
    if known.saved_at is not None and known.saved_at > one.saved_at:
        one = replace(one, saved_at=known.saved_at, has_checkpoint=True)
    return one


def with_look(losses: Sequence[Loss], picture: Snapshot, until: float) -> list[Loss]:
    """until: when the picture was seen, at most the end of the window."""
    running = _running(picture)
    open_ones: dict[str, list[Loss]] = defaultdict(list)
    for one in losses:
        if one.is_open:
            open_ones[one.workload].append(one)
    back = {
        uid: seen for mine in open_ones.values() for uid, seen in _who_is_back(mine, running, picture, until)
    }
    return [back.get(one.uid) or _looked_at(one, picture, until) for one in losses]


def _who_is_back(
    mine: Sequence[Loss], running: Counter[str], picture: Snapshot, until: float
) -> list[tuple[str, Loss]]:
    """Of the pods of one workload: as many as it has running pods more than those that never left."""
    workload, siblings = mine[0].workload, mine[0].siblings
    if not workload:
        return [(one.uid, replace(one, is_given_up=True)) for one in mine]
    owner = picture.workloads.get(workload)
    missing = max(0, siblings - running[workload])
    wanted = siblings if owner is None or owner.replicas is None else min(siblings, owner.replicas)
    surplus = len(mine) - missing
    given_up = missing if owner is None and mine[0].has_owner else siblings - wanted
    ordered = sorted(mine, key=lambda one: (one.evicted_at or 0.0, one.uid))
    began = _newest_starts(picture, workload)
    found = []
    for number, one in enumerate(ordered):
        if number < surplus:
            at = began[number] if number < len(began) else until
            found.append((one.uid, replace(one, back_at=max(min(at, until), one.evicted_at or 0.0))))
        elif len(ordered) - number <= given_up:
            found.append((one.uid, replace(one, is_given_up=True)))
    return found


def _newest_starts(picture: Snapshot, workload: str) -> list[float]:
    starts = [pod.started_at for pod in picture.pods.values() if pod.workload == workload and pod.started_at]
    return sorted(starts, reverse=True)


def _looked_at(one: Loss, picture: Snapshot, until: float) -> Loss:
    """Still missing; or not gone yet, and then perhaps with a newer checkpoint."""
    if one.is_open:
        return replace(one, away_until=max(until, one.evicted_at or until))
    pod = picture.pods.get(one.uid)
    if one.evicted_at is None and pod is not None and pod.checkpointed_at is not None:
        return replace(one, saved_at=max(pod.checkpointed_at, one.saved_at), has_checkpoint=True)
    return one


def _running(picture: Snapshot) -> Counter[str]:
    """Ready pods that are to stay, by workload."""
    return Counter(
        pod.workload
        for pod in picture.pods.values()
        if pod.workload and pod.is_holding and pod.ready and not pod.terminating
    )
