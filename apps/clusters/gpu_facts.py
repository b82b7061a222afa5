"""Every physical device of a snapshot as plain values, for the API: what it is, its state, who holds it.

`None` means "not known", never zero. No rules and no database here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.clusters.device_facts import STATES, as_time, device_facts, state_of
from apps.planner.inventory import Gpu, Node
from apps.planner.ledger import node_ledger
from apps.planner.ledger_rows import DeviceLedger, GroupLedger, NodeLedger
from apps.planner.snapshot import Snapshot

__all__ = ["STATES", "DeviceRow", "gpu_row", "gpus_of"]


class DeviceRow(NamedTuple):
    node: Node
    ledger: NodeLedger
    group: GroupLedger
    row: DeviceLedger

    @property
    def gpu(self) -> Gpu:
        return self.row.gpu

    @property
    def model(self) -> str:
        return self.gpu.model or self.group.model

    @property
    def state(self) -> str:
        return state_of(self.row)


def gpus_of(snapshot: Snapshot) -> Iterator[DeviceRow]:
    """By node, then in driver order; devices of other vendors after the main ones."""
    for _, node in sorted(snapshot.nodes.items()):
        if not node.gpus and not node.others:
            continue
        ledger = node_ledger(snapshot, node)
        for group in (ledger.main, *ledger.others):
            for row in group.devices:
                yield DeviceRow(node, ledger, group, row)


def gpu_row(one: DeviceRow) -> dict[str, Any]:
    facts = device_facts(one.ledger, one.group, one.row)
    node, takers = one.node, one.row.all_takers
    sources = sorted({str(taker.source) for taker in takers})
    seen = [taker.observed_at for taker in takers if taker.observed_at is not None]
    return {
        **facts,
        "node": node.name,
        "pool": node.pool,
        "is_node_ready": node.ready,
        "is_node_schedulable": not one.ledger.closed,
        "holders_source": ", ".join(sources),
        "holders_observed_at": as_time(min(seen)) if seen else None,
    }
