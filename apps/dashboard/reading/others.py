"""A node's devices of other vendors and kinds, ready to be drawn beside its GPUs.

Nothing is planned with them, so no more is told than who holds each. Pixels are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.dashboard.reading.marks import Mark
from apps.planner.ledger_rows import DeviceLedger, NodeLedger, Standing


class Seen(StrEnum):
    """UNSURE: whether it is held, or by whom, nobody tells. UNNAMED: held by a pod without a mark."""

    MARKED = "marked"
    UNNAMED = "unnamed"
    UNSURE = "unsure"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class OtherCell:
    """pod_uid: of the holder whose mark it has, "" without one."""

    seen: Seen
    pod_uid: str
    healthy: bool


def read_others(ledger: NodeLedger, marks: Mapping[str, Mark]) -> tuple[OtherCell, ...]:
    """In the order in which they stand beside the GPUs. marks: by pod uid."""
    return tuple(_cell(row, marks) for group in ledger.others for row in group.devices)


def _cell(row: DeviceLedger, marks: Mapping[str, Mark]) -> OtherCell:
    marked = next((one.pod_uid for one in row.all_takers if one.pod_uid in marks), "")
    is_open = row.standing is Standing.UNKNOWN or (row.standing is Standing.HELD and not row.takers)
    seen = Seen.UNSURE if is_open else Seen.UNNAMED if row.takers else Seen.FREE
    return OtherCell(Seen.MARKED if marked else seen, marked, row.gpu.healthy)
