"""How fragmented the cluster is: FGD's measure exactly, and separately named measures beside it.

FGD: "Beware of Fragmentation", USENIX ATC 2023. All sums are integers (pods x milli-GPU) and
divided last. The other measures (free nodes, largest gang, stranded GPUs, worth of a node)
are never mixed into it. Not in here: what to do about it (defrag).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.planner.beside import Beside, BesideTable, beside_to_dict
from apps.planner.fragmentation_sheets import CAUSES, Ints
from apps.planner.fragmentation_table import FragmentationTable
from apps.planner.gang_room import LargestGang, find_largest_gang
from apps.planner.inventory import Node, Pod
from apps.planner.mig.measuring import MigReport, measure_mig
from apps.planner.movability import MovabilityRules
from apps.planner.parts import Parts, Rows, count_free_blocks, is_whole_node, measure_parts, parts_to_dict
from apps.planner.resources import asks_gpu
from apps.planner.rooms import Room, free_room
from apps.planner.snapshot import Snapshot
from apps.planner.startable import StartableShape, list_startable
from apps.planner.workload import Workload, choose_workload, wanted_pods

WAITING, WANTED = "waiting", "wanted"
"""What stranded GPUs are measured against: the shapes that wait, else those of the workload."""
NOTHING_WANTED = "There are no pods, so nothing is wanted and nothing counts as lost."


@dataclass(frozen=True, slots=True)
class NodeFragmentation:
    """One node's part. worth: its free GPUs that end up in a whole free node, per pod to
    move; 0 where nothing is free to win or a pod may not move."""

    name: str
    fragmentation_milli: float
    idle_milli: int
    worth: float = 0.0


@dataclass(frozen=True, slots=True)
class FragmentationReport:
    """The measures of one snapshot, in milli-GPU unless named otherwise.

    numerator: sum over nodes and specs of count x F_n(m); weight_total: sum of the counts.
    ratio: fragmentation / idle. by_cause sums to idle_milli. free_nodes: number of GPUs -> nodes.
    free_blocks: size -> blocks, every wholly free GPU in one of them. parts: per pool and per model.
    stranded_by: WAITING or WANTED, the shapes that stranded_gpus is against. beside: the measures beside
    FGD. startable: per shape that waits, how many pods could start now. rows: what all of it was summed from.
    """

    fragmentation_milli: float
    idle_milli: int
    total_milli: int
    ratio: float
    by_cause: Mapping[str, float]
    nodes: tuple[NodeFragmentation, ...]
    free_nodes: Mapping[str, int]
    largest_gang: LargestGang
    stranded_gpus: float
    numerator: int = 0
    weight_total: int = 0
    warnings: tuple[str, ...] = field(default=())
    free_blocks: Mapping[str, int] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)
    stranded_by: str = WANTED
    beside: Beside = field(default_factory=Beside)
    startable: tuple[StartableShape, ...] = ()
    rows: Rows | None = None


def measure(
    snapshot: Snapshot, workload: Workload | Iterable[Pod] | None = None, mig: MigReport | None = None
) -> FragmentationReport:
    """workload: what is wanted; None takes the cluster's own pods. mig: measured here unless it is given.

    Nodes that are not Ready, stale, or cordoned by others are left out: nothing may start there.
    """
    rooms = free_room(snapshot)
    pods = wanted_pods(snapshot) if workload is None or isinstance(workload, Workload) else tuple(workload)
    wanted = workload if isinstance(workload, Workload) else choose_workload(pods)
    measured = [room for room in rooms.by_node.values() if _is_measured(room.node)]
    table = FragmentationTable(measured, wanted)
    least, stranded_by = _least_stranded(snapshot, measured, table)
    beside = BesideTable(measured, pods, mig or measure_mig(snapshot))
    rows = Rows(measured, table.causes, table.weight_total, least, stranded_by, beside)
    return FragmentationReport(
        **_sums(table),
        total_milli=1000 * sum(len(room.usable) for room in measured),
        nodes=_describe_nodes(snapshot, measured, table),
        free_nodes=count_free_nodes(snapshot),
        largest_gang=find_largest_gang(measured),
        stranded_gpus=int(least.sum()) / 1000,
        warnings=() if wanted.specs else (NOTHING_WANTED,),
        free_blocks=count_free_blocks(measured),
        parts=measure_parts(snapshot, rows),
        stranded_by=stranded_by,
        beside=beside.sum_of(range(len(measured))),
        startable=list_startable(snapshot, rooms),
        rows=rows,
    )


def _sums(table: FragmentationTable) -> dict[str, Any]:
    """FGD of all that is measured: divided last, 0 where nothing is wanted or nothing idle."""
    weight, numerator, idle = table.weight_total, table.numerator, table.idle_milli
    sums = table.causes.sum(axis=0).tolist()
    return {
        "fragmentation_milli": numerator / weight if weight else 0.0,
        "idle_milli": idle,
        "ratio": numerator / (weight * idle) if weight and idle else 0.0,
        "by_cause": {name: sums[at] / weight if weight else 0.0 for at, name in enumerate(CAUSES)},
        "numerator": numerator,
        "weight_total": weight,
    }


def count_free_nodes(snapshot: Snapshot) -> dict[str, int]:
    """Free nodes whose GPUs are all to be had whole, by their number of GPUs, largest first."""
    sizes = Counter(len(node.gpus) for node in snapshot.nodes.values() if is_whole_node(snapshot, node))
    return {str(size): sizes[size] for size in sorted(sizes, reverse=True)}


def report_to_dict(report: FragmentationReport, *, by_node: bool = False) -> dict[str, object]:
    """As the `measure` command and the API answer; the keys are a promise. by_node: each node with its causes
    and the measures beside FGD, which a large cluster's kept reports do without."""
    gang = report.largest_gang
    details = _detail_nodes(report.rows) if by_node and report.rows else [{} for _ in report.nodes]
    return {
        "fragmentation_milli": report.fragmentation_milli,
        "idle_milli": report.idle_milli,
        "total_milli": report.total_milli,
        "ratio": report.ratio,
        "by_cause": dict(report.by_cause),
        "nodes": [
            {
                "name": node.name,
                "fragmentation_milli": node.fragmentation_milli,
                "idle_milli": node.idle_milli,
                "worth": node.worth,
                **detail,
            }
            for node, detail in zip(report.nodes, details, strict=True)
        ],
        "free_nodes": dict(report.free_nodes),
        "largest_gang": {"gpus_per_pod": gang.gpus_per_pod, "link": gang.link, "pods": gang.pods},
        "stranded_gpus": report.stranded_gpus,
        "stranded_by": report.stranded_by,
        "fragmentation_numerator": report.numerator,
        "weight_total": report.weight_total,
        "warnings": list(report.warnings),
        "free_blocks": dict(report.free_blocks),
        **beside_to_dict(report.beside),
        "startable": [_shape_to_dict(shape) for shape in report.startable],
        **parts_to_dict(report.parts),
    }


def _shape_to_dict(shape: StartableShape) -> dict[str, object]:
    return {
        "workload": shape.workload,
        "gpus_per_pod": shape.gpus_per_pod,
        "milli": shape.milli,
        "memory_mib": shape.memory_mib,
        "link": shape.link,
        "profiles": dict(shape.profiles),
        "waiting_pods": shape.waiting,
        "startable_pods": shape.pods,
        "nodes": shape.nodes,
        "at_most": shape.at_most,
    }


def _detail_nodes(rows: Rows) -> list[dict[str, object]]:
    weight = rows.weight
    return [
        {
            "by_cause": {name: causes[at] / weight if weight else 0.0 for at, name in enumerate(CAUSES)},
            **beside_to_dict(rows.beside.sum_of((row,)), brief=True),
        }
        for row, causes in enumerate(rows.causes.tolist())
    ]


def _is_measured(node: Node) -> bool:
    """Our own cordons are passing, so they do not change the measure."""
    return (
        bool(node.gpus)
        and node.ready
        and node.stale_since is None
        and (not node.unschedulable or bool(node.cordon))
    )


def _least_stranded(snapshot: Snapshot, rooms: list[Room], table: FragmentationTable) -> tuple[Ints, str]:
    """Per room, idle capacity that no wanted shape can use: what waits if something waits,
    else what runs; and which of the two it was."""
    waiting = choose_workload(pod for pod in snapshot.pending_pods if asks_gpu(pod))
    if waiting.specs:
        return FragmentationTable(rooms, waiting).stranded(), WAITING
    return table.stranded(), WANTED


def _describe_nodes(
    snapshot: Snapshot, rooms: list[Room], table: FragmentationTable
) -> tuple[NodeFragmentation, ...]:
    rules = MovabilityRules(snapshot)
    weight, lost = table.weight_total, table.causes[:, :-1].sum(axis=1).tolist()
    return tuple(
        NodeFragmentation(
            name=room.node.name,
            fragmentation_milli=lost[row] / weight if weight else 0.0,
            idle_milli=room.idle_milli,
            worth=_worth(room, rules),
        )
        for row, room in enumerate(rooms)
    )


def _worth(room: Room, rules: MovabilityRules) -> float:
    if not room.free_gpus:
        return 0.0
    guests = [pod for pod in room.pods.values() if asks_gpu(pod)]
    if not guests or not all(rules.judge(pod).movable for pod in guests):
        return 0.0
    return room.free_gpus / len(guests)
