"""The same measures for a part of the cluster: one pool, one model, or one model within one pool.

A part is measured against the wanted shapes of the whole cluster, so amounts of the pools (or of
the models) add up to the cluster's. Gangs do not add up: each part has the largest node of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apps.planner.beside import Beside, BesideTable, beside_to_dict
from apps.planner.fragmentation_sheets import CAUSES, Ints
from apps.planner.gang_room import LargestGang, find_largest_gang
from apps.planner.group_packing import most_groups
from apps.planner.inventory import LinkClass, Node
from apps.planner.mig.use import single_profile
from apps.planner.rooms import Room, is_free_node
from apps.planner.snapshot import Snapshot

BLOCKS = (8, 4, 2, 1)
"""Sizes of free blocks. A node with 7 free GPUs has one block of 4, one of 2 and one of 1."""


@dataclass(frozen=True, slots=True)
class PartFragmentation:
    """Amounts in milli-GPU unless named otherwise; by_cause sums to idle_milli."""

    nodes: int
    fragmentation_milli: float
    idle_milli: int
    total_milli: int
    by_cause: Mapping[str, float]
    free_blocks: Mapping[str, int]
    free_nodes: Mapping[str, int]
    largest_gang: LargestGang
    stranded_gpus: float
    stranded_by: str
    beside: Beside = field(default_factory=Beside)


@dataclass(frozen=True, slots=True)
class Parts:
    """by_pool and by_model: name -> part; by_pool_and_model: pool -> model -> part."""

    by_pool: Mapping[str, PartFragmentation] = field(default_factory=dict)
    by_model: Mapping[str, PartFragmentation] = field(default_factory=dict)
    by_pool_and_model: Mapping[str, Mapping[str, PartFragmentation]] = field(default_factory=dict)


def count_free_blocks(rooms: Iterable[Room]) -> dict[str, int]:
    """Each node's wholly free GPUs in blocks of 8, 4, 2 and 1, largest first; every GPU counts once."""
    blocks: Counter[int] = Counter()
    for room in rooms:
        left = room.free_gpus
        for size in BLOCKS:
            blocks[size] += left // size
            left %= size
    return {str(size): blocks[size] for size in BLOCKS}


def is_whole_node(snapshot: Snapshot, node: Node) -> bool:
    """A free node whose GPUs a pod can get all, each whole: none is unhealthy, cut by MIG or shared."""
    offered = node.allocatable.get(node.gpu_resource, 0) or (len(node.gpus) if node.claimable else 0)
    return (
        is_free_node(snapshot, node)
        and offered == len(node.gpus)
        and not single_profile(node)
        and all(gpu.healthy and not gpu.instances for gpu in node.gpus)
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """The measure's tables, a row per room. causes: counts x milli, weight: the sum of the counts. least:
    what no shape can use of those that stranded_by names."""

    rooms: Sequence[Room]
    causes: Ints
    weight: int
    least: Ints
    stranded_by: str
    beside: BesideTable


def measure_parts(snapshot: Snapshot, table: Rows) -> Parts:
    rooms, weight = table.rooms, table.weight
    count = _remembered(most_groups)

    def measure_rows(rows: list[int]) -> PartFragmentation:
        here = [rooms[row] for row in rows]
        sums = table.causes[rows].sum(axis=0)
        free = Counter(len(room.node.gpus) for room in here if is_whole_node(snapshot, room.node))
        return PartFragmentation(
            nodes=len(here),
            fragmentation_milli=int(sums[:-1].sum()) / weight if weight else 0.0,
            idle_milli=sum(room.idle_milli for room in here),
            total_milli=1000 * sum(len(room.usable) for room in here),
            by_cause={name: int(sums[at]) / weight if weight else 0.0 for at, name in enumerate(CAUSES)},
            free_blocks=count_free_blocks(here),
            free_nodes={str(size): free[size] for size in sorted(free, reverse=True)},
            largest_gang=find_largest_gang(here, count),
            stranded_gpus=int(table.least[rows].sum()) / 1000,
            stranded_by=table.stranded_by,
            beside=table.beside.sum_of(rows),
        )

    pools, models = defaultdict(list), defaultdict(list)
    pairs: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, room in enumerate(rooms):
        pools[room.node.pool].append(row)
        models[room.node.model].append(row)
        pairs[room.node.pool][room.node.model].append(row)
    return Parts(
        by_pool={name: measure_rows(rows) for name, rows in sorted(pools.items())},
        by_model={name: measure_rows(rows) for name, rows in sorted(models.items())},
        by_pool_and_model={
            pool: {model: measure_rows(rows) for model, rows in sorted(within.items())}
            for pool, within in sorted(pairs.items())
        },
    )


def parts_to_dict(parts: Parts) -> dict[str, object]:
    return {
        "pools": {name: part_to_dict(part) for name, part in parts.by_pool.items()},
        "models": {name: part_to_dict(part) for name, part in parts.by_model.items()},
        "pools_by_model": {
            pool: {model: part_to_dict(part) for model, part in within.items()}
            for pool, within in parts.by_pool_and_model.items()
        },
    }


def part_to_dict(part: PartFragmentation) -> dict[str, object]:
    """The keys mean what they mean in the report of the whole cluster."""
    gang = part.largest_gang
    return {
        "node_count": part.nodes,
        "fragmentation_milli": part.fragmentation_milli,
        "idle_milli": part.idle_milli,
        "total_milli": part.total_milli,
        "by_cause": dict(part.by_cause),
        "free_blocks": dict(part.free_blocks),
        "free_nodes": dict(part.free_nodes),
        "largest_gang": {"gpus_per_pod": gang.gpus_per_pod, "link": gang.link, "pods": gang.pods},
        "stranded_gpus": part.stranded_gpus,
        "stranded_by": part.stranded_by,
        **beside_to_dict(part.beside),
    }


def _remembered(count: Callable[[Room, int, LinkClass], int]) -> Callable[[Room, int, LinkClass], int]:
    """A node belongs to three parts, and finding its linked groups is the slow bit."""
    known: dict[tuple[str, int, LinkClass], int] = {}

    def ask(room: Room, size: int, link: LinkClass) -> int:
        key = (room.node.name, size, link)
        if key not in known:
            known[key] = count(room, size, link)
        return known[key]

    return ask
