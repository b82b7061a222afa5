"""The fragmentation report as the pages use it. None means "not measured yet", never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from apps.dashboard.reading.nodes import LINK_WORDS
from apps.fragmentation.models import Report
from apps.planner.inventory import LinkClass


@dataclass(frozen=True, slots=True)
class GangRoom:
    """How many pods of so many linked GPUs could start together now."""

    pods: int
    gpus_per_pod: int
    link: str


@dataclass(frozen=True, slots=True)
class Measures:
    """worth: by node, its free GPUs that become part of a whole free node, for each pod moved.
    stranded_by: what stranded_gpus is against, "" where an older report does not say.
    blocked: by node, the share of the wanted shapes (weighted) that cannot use what is idle there."""

    report_id: int | None = None
    worth: Mapping[str, float] = field(default_factory=dict)
    blocked: Mapping[str, float] = field(default_factory=dict)
    stranded_gpus: float | None = None
    stranded_by: str = ""
    idle_gpus: float | None = None
    ratio: float | None = None
    gang: GangRoom | None = None
    measured_at: datetime | None = None


def read_measures(report: Report | None) -> Measures:
    if report is None:
        return Measures()
    body = report.body
    nodes = body.get("nodes", [])
    gang = body.get("largest_gang")
    return Measures(
        report_id=report.pk,
        worth={node["name"]: node["worth"] for node in nodes if node["worth"]},
        blocked={
            node["name"]: node["fragmentation_milli"] / node["idle_milli"]
            for node in nodes
            if node["idle_milli"]
        },
        stranded_gpus=body.get("stranded_gpus"),
        stranded_by=body.get("stranded_by", ""),
        idle_gpus=report.idle_milli / 1000,
        ratio=body.get("ratio"),
        gang=GangRoom(gang["pods"], gang["gpus_per_pod"], _link_word(gang["link"])) if gang else None,
        measured_at=report.measured_at,
    )


def _link_word(link: str) -> str:
    known = set(LinkClass)
    return LINK_WORDS[LinkClass(link)] if link in known else link
