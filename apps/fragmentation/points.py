"""One point of the trend: what a report says of all nodes, or of one pool or model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One report of the trend, for one scope. Amounts in milli-GPU.

    body: as `planner.parts.part_to_dict` words it. after_gap: nobody saw the cluster just before.
    """

    report_id: int
    snapshot_id: int
    measured_at: datetime
    seen_until: datetime
    body: Mapping[str, Any]
    after_gap: bool = False

    @property
    def fragmentation_milli(self) -> float:
        return float(self.body["fragmentation_milli"])

    @property
    def idle_milli(self) -> int:
        return int(self.body["idle_milli"])

    @property
    def total_milli(self) -> int:
        return int(self.body["total_milli"])

    @property
    def ratio(self) -> float:
        return self.fragmentation_milli / self.idle_milli if self.idle_milli else 0.0

    @property
    def by_cause(self) -> Mapping[str, float]:
        return self.body["by_cause"]

    @property
    def free_blocks(self) -> Mapping[str, int]:
        """Size -> blocks; empty where the report is older than this measure."""
        return self.body.get("free_blocks", {})

    @property
    def free_nodes(self) -> Mapping[str, int]:
        return self.body["free_nodes"]

    @property
    def largest_gang(self) -> Mapping[str, Any]:
        return self.body["largest_gang"]

    @property
    def gang_gpus(self) -> int:
        return int(self.largest_gang["pods"] * self.largest_gang["gpus_per_pod"])

    @property
    def stranded_gpus(self) -> float:
        return float(self.body["stranded_gpus"])

    @property
    def stranded_by(self) -> str:
        """What that is against, as the planner names it; "" where the report is older than this word."""
        return str(self.body.get("stranded_by", ""))

    @property
    def link_groups(self) -> Mapping[str, Mapping[str, int]]:
        """Link class -> N -> groups of N free GPUs that fit; empty where the report is older,
        as all that follows."""
        return self.body.get("link_groups", {})

    @property
    def links_unknown_nodes(self) -> int:
        return int(self.body.get("links_unknown_nodes", 0))

    @property
    def gpu_memory(self) -> Mapping[str, Any] | None:
        return self.body.get("gpu_memory")

    @property
    def mig(self) -> Mapping[str, Any] | None:
        """None where no GPU is cut."""
        return self.body.get("mig")

    @property
    def startable(self) -> Sequence[Mapping[str, Any]]:
        """Per shape that waits, how many pods could start; of all nodes only."""
        return self.body.get("startable", ())

    @property
    def wanted(self) -> Mapping[str, Any] | None:
        """What FGD was measured against; of all nodes only."""
        return self.body.get("wanted")
