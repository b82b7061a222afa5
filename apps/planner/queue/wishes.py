"""What waits, as shapes and counts: the terms in which room for a queue is planned.

Not in here: what the nodes could give (states), who gets what (program).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from apps.planner.capacity import shape_key
from apps.planner.inventory import Pod
from apps.planner.node_choice import most_per_node
from apps.planner.placement import Board
from apps.planner.resources import Demand
from apps.planner.waiting import WaitingWorkload


@dataclass(frozen=True, slots=True)
class Wish:
    """Pods that wait and differ in nothing that placement asks. pod: any one of them. count: how many
    there are. most: of them on one node. nodes: that the pod's fixed wishes allow."""

    key: Hashable
    pod: Pod
    demand: Demand
    count: int
    most: int
    nodes: frozenset[str]


@dataclass(slots=True)
class Batch:
    """Waiting workloads with equal needs, in the order of the queue. needs: pods by number of the wish.
    milli: GPUs that one of them starts with."""

    needs: Mapping[int, int]
    milli: int
    members: list[WaitingWorkload] = field(default_factory=list)


def list_wishes(board: Board, waiting: Iterable[WaitingWorkload]) -> tuple[list[Wish], list[Batch]]:
    """Of workloads that ask for GPUs; the others are no objective of a program. Members without GPUs find
    room when an answer is put on the board."""
    places: dict[Hashable, int] = {}
    examples: list[Pod] = []
    counts: Counter[int] = Counter()
    batches: dict[tuple[tuple[int, int], ...], Batch] = {}
    for one in waiting:
        needs: Counter[int] = Counter()
        milli = 0
        for uid in one.pods:
            pod = board.snapshot.pods[uid]
            if not board.final.demand(pod).gpus:
                continue
            at = places.setdefault(shape_key(board, pod), len(places))
            if at == len(examples):
                examples.append(pod)
            needs[at] += 1
            milli += board.final.demand(pod).gpu_milli
        if not milli:
            continue
        counts.update(needs)
        key = tuple(sorted(needs.items()))
        batches.setdefault(key, Batch(dict(key), milli)).members.append(one)
    wishes = [
        Wish(
            shape_key(board, pod),
            pod,
            board.final.demand(pod),
            counts[at],
            min(counts[at], most_per_node(pod)),
            frozenset(board.open_nodes(pod)),
        )
        for at, pod in enumerate(examples)
    ]
    return wishes, list(batches.values())
