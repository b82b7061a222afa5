"""How many GPUs: in all, schedulable, eligible for one pod, allocated, free, stranded: never one for another.

Sums of the nodes' ledgers. Not in here: fragmentation (measured against shapes that are wanted).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from apps.planner.fitting import Fitting
from apps.planner.inventory import Pod
from apps.planner.ledger import node_ledger
from apps.planner.ledger_rows import NodeLedger
from apps.planner.rooms import free_room
from apps.planner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GpuCounts:
    """physical: in all. schedulable: on open nodes, healthy and offered. eligible: of those, on nodes that
    the pod's own wishes allow; None if no pod is asked for. other_devices: beside the main ones, physical.
    unlocated_pods: whose device nobody tells. overcommitted: units asked beyond those offered."""

    physical: int = 0
    schedulable: int = 0
    eligible: int | None = None
    allocated_milli: int = 0
    free: int = 0
    left_milli: int = 0
    stranded_milli: int = 0
    other_devices: int = 0
    unlocated_pods: int = 0
    overcommitted: int = 0


def counts_to_dict(counts: GpuCounts) -> dict[str, float]:
    """As the `measure` command answers; amounts in GPUs."""
    return {
        "physical": counts.physical,
        "schedulable": counts.schedulable,
        "allocated": counts.allocated_milli / 1000,
        "free": counts.free,
        "stranded": counts.stranded_milli / 1000,
        "other_devices": counts.other_devices,
        "unlocated_pods": counts.unlocated_pods,
        "overcommitted_units": counts.overcommitted,
    }


def count_gpus(snapshot: Snapshot, pod: Pod | None = None) -> GpuCounts:
    ledgers = [node_ledger(snapshot, node) for node in snapshot.nodes.values() if node.gpus or node.others]
    return sum_ledgers(ledgers, None if pod is None else count_eligible(snapshot, ledgers, pod))


def sum_ledgers(ledgers: Iterable[NodeLedger], eligible: int | None = None) -> GpuCounts:
    rows = list(ledgers)
    return GpuCounts(
        physical=sum(row.physical for row in rows),
        schedulable=sum(row.schedulable for row in rows),
        eligible=eligible,
        allocated_milli=round(sum((row.main.allocated for row in rows), Fraction(0))),
        free=sum(row.free for row in rows),
        left_milli=sum(row.main.left_milli for row in rows),
        stranded_milli=sum(row.stranded_milli for row in rows),
        other_devices=sum(group.physical for row in rows for group in row.others),
        unlocated_pods=sum(len(row.unlocated) for row in rows),
        overcommitted=sum(row.overcommitted for row in rows),
    )


def count_eligible(snapshot: Snapshot, ledgers: Iterable[NodeLedger], pod: Pod) -> int:
    """Schedulable GPUs of nodes whose labels, taints and state let the pod in, whether or not it has room."""
    fitting = Fitting(free_room(snapshot))
    return sum(
        row.schedulable for row in ledgers if not fitting.static_reasons(pod, snapshot.nodes[row.name])
    )
