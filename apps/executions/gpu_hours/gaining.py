"""The account of what ran because a plan made room: pods that it unlocked, and whoever came onto a node that
it freed. Pure.

A pod counts from its start to the last look at which it ran, so what began and ended between two looks is not
counted, and what ended between them counts a little less. Whether it would have found other room nobody
knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from apps.executions.gpu_hours.predicting import gpus_of
from apps.planner.costs import HOUR
from apps.planner.inventory import Pod
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Room:
    """Whom the plan made room for. uids, workloads, gangs: of the pods that it unlocks; nodes: that it
    frees."""

    uids: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    def as_json(self) -> Json:
        return {name: sorted(getattr(self, name)) for name in ("uids", "workloads", "gangs", "nodes")}


@dataclass(frozen=True, slots=True)
class Gain:
    """One pod that runs there; epoch seconds. is_unlocked: it waited when the plan was made, or is of the
    same workload; else it came onto a freed node."""

    uid: str
    pod: str
    gpus: float
    is_unlocked: bool
    began: float
    until: float

    @property
    def hours(self) -> float:
        return self.gpus * max(0.0, self.until - self.began) / HOUR

    def as_json(self) -> Json:
        return asdict(self)


def room_of(plan: Plan, before: Snapshot) -> Room:
    named = set(plan.unlocked)
    pods = [pod for pod in before.pods.values() if pod.key in named and pod.is_pending]
    return Room(
        uids=frozenset(pod.uid for pod in pods),
        workloads=frozenset(pod.workload for pod in pods if pod.workload),
        gangs=frozenset(pod.gang for pod in pods if pod.gang),
        nodes=frozenset(plan.freed_nodes),
    )


def read_room(found: Json) -> Room:
    return Room(**{name: frozenset(found.get(name, ())) for name in ("uids", "workloads", "gangs", "nodes")})


def with_look(
    gains: Mapping[str, Gain],
    room: Room,
    picture: Snapshot,
    *,
    since: float,
    until: float,
    moved: Collection[str] = (),
) -> dict[str, Gain]:
    """By pod UID. since: when the execution began; who ran before owes it nothing. until: when the picture
    was seen, at most the end of the window. moved: UIDs of replacements, which were put where they are."""
    found = dict(gains)
    for pod in picture.pods.values():
        if not _runs_since(pod, since) or pod.uid in moved:
            continue
        is_unlocked = _is_unlocked(pod, room)
        gpus = gpus_of(pod)
        if not gpus or not (is_unlocked or pod.node_name in room.nodes):
            continue
        began = min(pod.started_at or until, until)
        fresh = Gain(pod.uid, pod.key, gpus, is_unlocked, began, until)
        found[pod.uid] = replace(found.get(pod.uid, fresh), until=until)
    return found


def _runs_since(pod: Pod, since: float) -> bool:
    is_running = pod.is_holding and pod.phase == "Running" and not pod.hold
    return is_running and pod.started_at is not None and pod.started_at >= since


def _is_unlocked(pod: Pod, room: Room) -> bool:
    return pod.uid in room.uids or pod.workload in room.workloads or pod.gang in room.gangs
