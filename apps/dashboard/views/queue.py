"""The queue: what waits for a node, why every node says no, and the way to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.clusters import queries as clusters
from apps.dashboard.reading.callout import open_plan_for
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.queue import QueueLine, describe_waiting
from apps.dashboard.reading.words import plural
from apps.dashboard.views.shell import MISSED, page, show
from apps.pending import queries as pending

LIVE_ON = f"sse:snapshot throttle:1s, sse:plan throttle:1s, {MISSED}, every 30s"
LENGTH = 200
WAITS = {"0": "any time", "300": "5 min", "3600": "1 h", "86400": "1 day"}


@dataclass(frozen=True, slots=True)
class Wishes:
    reason: str
    find: str
    longer: int


@page
def queue(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    waiting = pending.waiting_workloads(clusters.open_snapshot(row)) if row is not None else ()
    lines = [describe_waiting(position, one) for position, one in enumerate(waiting, 1)]
    longer = request.GET.get("longer", "0")
    wishes = Wishes(
        reason=request.GET.get("reason", "")[:60],
        find=request.GET.get("find", "")[:120],
        longer=int(longer) if longer in WAITS else 0,
    )
    found = _filter(lines, wishes)
    return show(
        request,
        "queue",
        title="Queue",
        here="Queue",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context={
            "lines": [
                (line, open_plan_for(request.user, place, line.waiting.key)) for line in found[:LENGTH]
            ],
            "hidden": max(0, len(found) - LENGTH),
            "summary": _summary(lines),
            "all_count": len(lines),
            "reasons": sorted({(line.waiting.reason_code, line.reason) for line in lines}),
            "waits": WAITS,
            "wishes": wishes,
            "problems": tell_problems(place),
        },
    )


def _filter(lines: Sequence[QueueLine], wishes: Wishes) -> list[QueueLine]:
    wanted = wishes.find.strip().lower()
    return [
        line
        for line in lines
        if (not wishes.reason or line.waiting.reason_code == wishes.reason)
        and line.seconds >= wishes.longer
        and wanted in f"{line.waiting.key} {line.waiting.display} {line.reason}".lower()
    ]


def _summary(lines: Sequence[QueueLine]) -> str:
    gpus: Any = sum(line.waiting.gpus for line in lines)
    oldest = max(lines, key=lambda line: line.seconds, default=None)
    if oldest is None:
        return ""
    return f"{plural(len(lines), 'workload')} pending · {plural(gpus, 'GPU')} wanted · oldest {oldest.wait}"
