"""What a change would do to a cluster: what of the queue could start, what is free, how fragmented it is.

Both sides are measured alike and against the same target workload. Nothing is moved for it: "could start" is
without any move or preemption. Not in here: the changes themselves (whatif_changes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apps.planner.defrag import plan_unlock
from apps.planner.fragmentation import measure
from apps.planner.quota import judge_queues
from apps.planner.quota_words import NOT_ADMITTED
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import list_waiting
from apps.planner.workload import Workload

Deadline = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Standing:
    """One cluster, as it is or as it would be.

    waiting: workloads, also those without pods yet; held_back: of them, by their queue's quota or order.
    starts: keys of those that could start together now. gpus: those that something may start on, idle_gpus:
    what is left of them. fragmentation_gpus: FGD's amount; ratio: of what is idle.
    """

    nodes: int
    gpus: float
    idle_gpus: float
    waiting: int
    held_back: int
    starts: tuple[str, ...]
    free_blocks: Mapping[str, int]
    free_nodes: int
    gang_pods: int
    gang_gpus: int
    gang_link: str
    fragmentation_gpus: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Effect:
    """new_starts: keys that could start only after the change; lost_starts: only before it. new_waiting: that
    wait only because of the change (a removed node's pods). was_late: the search for starts was cut short."""

    before: Standing
    after: Standing
    new_starts: tuple[str, ...] = ()
    lost_starts: tuple[str, ...] = ()
    new_waiting: tuple[str, ...] = field(default=())
    was_late: bool = False


def compare_clusters(before: Snapshot, after: Snapshot, *, workload: Workload, deadline: Deadline) -> Effect:
    """workload: what fragmentation is measured against, on both sides."""
    one, two = (measure_standing(side, workload, deadline) for side in (before, after))
    had, has = set(one.starts), set(two.starts)
    waited = list_waiting(before)[0]
    return Effect(
        one,
        two,
        new_starts=tuple(key for key in two.starts if key not in had),
        lost_starts=tuple(key for key in one.starts if key not in has),
        new_waiting=tuple(key for key in list_waiting(after)[0] if key not in waited),
        was_late=deadline(),
    )


def measure_standing(snapshot: Snapshot, workload: Workload, deadline: Deadline) -> Standing:
    report, groups = measure(snapshot, workload), list_waiting(snapshot)[0]
    gang = report.largest_gang
    return Standing(
        nodes=len(snapshot.nodes),
        gpus=report.total_milli / 1000,
        idle_gpus=report.idle_milli / 1000,
        waiting=len(groups),
        held_back=sum(one.code != NOT_ADMITTED for one in judge_queues(snapshot, groups.items()).values()),
        starts=plan_unlock(snapshot, workload=None, max_moves=0, deadline=deadline).unlocked,
        free_blocks=dict(report.free_blocks),
        free_nodes=sum(report.free_nodes.values()),
        gang_pods=gang.pods,
        gang_gpus=gang.gpus_per_pod,
        gang_link=gang.link,
        fragmentation_gpus=report.fragmentation_milli / 1000,
        ratio=report.ratio,
    )
