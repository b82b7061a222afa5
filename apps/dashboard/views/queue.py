"""The queue: what waits for a node, why every node says no, what would help, and where it would go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts.rates import require_rate
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.alike import gather_alike
from apps.dashboard.reading.callout import open_plan_with_goal, open_plans
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.queue import QueueLine, describe_waiting
from apps.dashboard.reading.queue_wishes import SORTS, WAITS, Wishes, list_reasons
from apps.dashboard.reading.quotas import draw_quotas
from apps.dashboard.reading.what_if import draw_line, read_answer
from apps.dashboard.reading.words import plural
from apps.dashboard.views.shell import MISSED, page, show
from apps.pending import asking
from apps.pending import queries as pending
from apps.pending.starts import expected_starts
from apps.pending.unblocking import (
    MOST_ASKED,
    find_unblocking,
    known_sentence,
    known_unblocking,
    likeness,
)
from apps.planner.plan import Goal
from apps.planner.snapshot import Snapshot as Picture
from apps.plans.models import Plan

LIVE_ON = f"sse:snapshot throttle:1s, sse:plan throttle:1s, {MISSED}, every 30s"
LENGTH = 200
NODES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Row:
    """plan: under way for it. unblocking: what the planner said, "" if nobody asked it yet. asks: whether
    the page asks it (again) now. simulation: the open one's content."""

    line: QueueLine
    plan: Plan | None
    unblocking: str
    asks: bool
    simulation: dict[str, Any] | None


@page
def queue(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    picture = clusters.open_snapshot(row) if row is not None else None
    lines = _lines(place, picture) if picture is not None else []
    wishes = Wishes.read(request)
    found = wishes.choose(lines)
    return show(
        request,
        "queue",
        title="Queue",
        here="Queue",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context={
            "rows": _rows(request, place, picture, found[:LENGTH], wishes) if picture is not None else [],
            "hidden": max(0, len(found) - LENGTH),
            "summary": _summary(lines),
            "all_count": len(lines),
            "reasons": list_reasons(lines),
            "tenants": sorted({line.place.tenant for line in lines}),
            "waits": WAITS,
            "sorts": SORTS,
            "wishes": wishes,
            "problems": tell_problems(place),
            "quotas": draw_quotas(pending.queue_states(picture)) if picture is not None else None,
        },
    )


def _lines(place: Cluster, picture: Picture) -> list[QueueLine]:
    """In the fair order."""
    places, starts = pending.places(picture), expected_starts(place, picture).by_key
    return [
        describe_waiting(alike, places[alike[0].key], starts.get(alike[0].key))
        for alike in gather_alike(pending.queue_in_order(picture))
    ]


def _rows(
    request: HttpRequest, place: Cluster, picture: Picture, lines: Sequence[QueueLine], wishes: Wishes
) -> list[Row]:
    plans, layouts = open_plans(request.user, place), open_plan_with_goal(request.user, place, Goal.MIG)
    rows: list[Row] = []
    asked: set[tuple[object, ...]] = set()
    for line in lines:
        plan = next((plans[key] for key in line.keys if key in plans), None)
        plan = plan or (layouts if line.goal == Goal.MIG else None)
        told = known_unblocking(place, line.first)
        if line.can_plan and len(asked) < MOST_ASKED:
            asked.add(likeness(line.first))
        asks = likeness(line.first) in asked and (told is None or not told.is_fresh)
        rows.append(
            Row(
                line=line,
                plan=plan,
                unblocking=known_sentence(place, line.first),
                asks=asks,
                simulation=_simulate(picture, line) if wishes.simulate in line.keys else None,
            )
        )
    return rows


def _simulate(picture: Picture, line: QueueLine) -> dict[str, Any]:
    """Where it would go now: the best nodes with every rule's verdict."""
    verdicts = asking.rank_waiting(picture, line.waiting.key) or ()
    answer = read_answer(verdicts, len(line.first.pods))
    lines = [draw_line(at, one, answer, picture) for at, one in enumerate(verdicts[:NODES_SHOWN], 1)]
    query = urlencode({"workload": line.waiting.key})
    return {"answer": answer, "lines": lines, "query": query, "waiting": line.first}


@page
def unblocking(request: HttpRequest, cluster: str) -> HttpResponse:
    """The sentence of one workload, fetched when the queue stands, since finding it takes a while."""
    require_rate("calls", request.user)
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        raise Http404(f"no snapshot of {cluster} is known yet")
    picture = clusters.open_snapshot(row)
    key = request.GET.get("workload", "")[:400]
    waiting = pending.waiting_workload(picture, key)
    if waiting is None:
        raise Http404(f"no workload {key!r} waits in {cluster}")
    told = find_unblocking(place, row, picture, waiting)
    return render(request, "pages/queue_unblocking.html", {"told": told, "cluster": place, "key": key})


def _summary(lines: Sequence[QueueLine]) -> str:
    gpus: Any = sum(line.waiting.gpus for line in lines)
    oldest = max(lines, key=lambda line: line.seconds, default=None)
    if oldest is None:
        return ""
    instances = sum(sum(one.profiles.values()) * len(one.pods) for one in (line.waiting for line in lines))
    wanted = [plural(gpus, "GPU")] if gpus or not instances else []
    wanted += [plural(instances, "MIG instance")] if instances else []
    head = f"{plural(len(lines), 'workload')} pending"
    never = sum(line.waiting.never for line in lines)
    ends = f" · {never} can never run here" if never else ""
    return f"{head} · {' and '.join(wanted)} wanted · oldest {oldest.wait}{ends}"
