"""The account of what ran because a plan made room: pods that it unlocked, and whoever came onto a node that
it freed. Pure.

A pod counts from its start to the last look at which it ran, so what began and ended between two looks is not
counted, and what ended between them counts a little less. Whether it would have found other room nobody
knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from apps.executions.gpu_hours.predicting import gpus_of
from apps.planner.costs import HOUR
from apps.planner.inventory import Pod
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot

Json = dict[str, Any]


NAMES = ("uids", "workloads", "gangs", "nodes")


@dataclass(frozen=True, slots=True)
class Room:
    """Whom the plan made room for. uids, workloads, gangs: of the pods that it unlocks; nodes: that it frees.
    waiting: how many it unlocks of each gang or workload, empty where an older release did not count."""

    uids: frozenset[str] = frozenset()
    workloads: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    waiting: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> Json:
        return {name: sorted(getattr(self, name)) for name in NAMES} | {"waiting": dict(self.waiting)}


@dataclass(frozen=True, slots=True)
class Gain:
    """One pod that runs there; epoch seconds. is_unlocked: it waited when the plan was made, or is of the
    same workload and runs in the place of one that did; else it came onto a freed node."""

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
        waiting=Counter(_whose(pod) for pod in pods),
    )


def read_room(found: Json) -> Room:
    known = {name: frozenset(found.get(name, ())) for name in NAMES}
    return Room(**known, waiting=dict(found.get("waiting", {})))


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
    running = [pod for pod in picture.pods.values() if _runs_since(pod, since) and pod.uid not in moved]
    unlocked = find_unlocked(running, room, gains)
    last = max((one.until for one in gains.values()), default=0.0)
    for pod in running:
        is_unlocked, gpus = pod.uid in unlocked, gpus_of(pod)
        if not gpus or not (is_unlocked or pod.node_name in room.nodes):
            continue
        began = min(pod.started_at or until, until)
        if is_unlocked and pod.uid not in room.uids and room.waiting:
            began = max(began, last)  # until then another one ran in its place
        fresh = Gain(pod.uid, pod.key, gpus, is_unlocked, began, until)
        found[pod.uid] = replace(found.get(pod.uid, fresh), until=until)
    return found


def _runs_since(pod: Pod, since: float) -> bool:
    is_running = pod.is_holding and pod.phase == "Running" and not pod.hold
    return is_running and pod.started_at is not None and pod.started_at >= since


def find_unlocked(running: Iterable[Pod], room: Room, gains: Mapping[str, Gain]) -> set[str]:
    """UIDs of those that waited, and of as many others of their gang or workload as waited and do not run
    themselves: its pods that any rollout makes anew owe the plan nothing. Those that were counted before come
    first."""
    found: set[str] = set()
    heirs: dict[str, list[Pod]] = defaultdict(list)
    taken: Counter[str] = Counter()
    for pod in running:
        if pod.uid in room.uids:
            found.add(pod.uid)
            taken[_whose(pod)] += 1
        elif pod.workload in room.workloads or pod.gang in room.gangs:
            heirs[_whose(pod)].append(pod)
    for whose, pods in heirs.items():
        most = room.waiting.get(whose, 0) - taken[whose] if room.waiting else len(pods)
        pods.sort(key=lambda pod: (not _was_unlocked(pod, gains), pod.started_at or 0.0, pod.uid))
        found |= {pod.uid for pod in pods[: max(most, 0)]}
    return found


def _was_unlocked(pod: Pod, gains: Mapping[str, Gain]) -> bool:
    return pod.uid in gains and gains[pod.uid].is_unlocked


def _whose(pod: Pod) -> str:
    return pod.gang or pod.workload
