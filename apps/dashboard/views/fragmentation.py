"""Fragmentation: how it is, how it came to be so, and what the plans changed. Page, figures, exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard.drawings.trend import draw_figures
from apps.dashboard.reading.fits import tell_fits
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.telemetry import tell_low_use
from apps.dashboard.reading.trend import Trend, choose_range, read_trend
from apps.dashboard.reading.trend_words import (
    BLOCKS,
    CAUSES,
    SPANS,
    clock,
    list_causes,
    list_exported,
    list_marks,
    list_rows,
    say_change,
    tell_trend_tiles,
)
from apps.dashboard.views.exports import csv_file
from apps.dashboard.views.shell import MISSED, page, person_of, show
from apps.fragmentation import queries as fragmentation
from apps.fragmentation.models import Report
from apps.fragmentation.trends import RANGES, Scope, known_scopes
from apps.pending import queries as pending

TOPICS = ("fragmentation delay:300ms", "snapshot throttle:2s", "execution throttle:2s")
LIVE_ON = ", ".join([*(f"sse:{topic}" for topic in TOPICS), MISSED, "every 15s"])
PACE = 720
"""The charts are fetched again after a 720th of their range at the earliest, and never within 2 s."""
STILL_SECONDS = 15
"""Where nothing changes, the charts still go on with time this often."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the address asks for."""

    span: str
    scope: Scope

    @classmethod
    def read(cls, request: HttpRequest, cluster: Cluster) -> Wishes:
        scope = Scope(pool=request.GET.get("pool", "")[:253], model=request.GET.get("model", "")[:253])
        return cls(choose_range(request.GET.get("range", ""), cluster), scope)

    @property
    def query(self) -> str:
        asked = {"range": self.span, "pool": self.scope.pool, "model": self.scope.model}
        return urlencode({key: value for key, value in asked.items() if value})


@page
def fragmentation_page(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request, place)
    newest = fragmentation.latest_report(place)
    trend = read_trend(person_of(request), place, row, wishes.span, wishes.scope)
    wanted = _wanted(row)
    pools, models = known_scopes(newest)
    return show(
        request,
        "fragmentation",
        title="Fragmentation",
        here="Fragmentation",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context={
            "empty": _why_empty(row, newest, trend),
            "newest": newest,
            "trend": trend,
            "wishes": wishes,
            "spans": SPANS,
            "pools": pools,
            "models": models,
            "figure_url": f"{reverse('trend-figure', args=[place.name])}?{wishes.query}",
            "state_key": _key(newest, trend),
            "pace_seconds": _pace(wishes.span),
            "then": f"at {clock(trend.known_since, trend.until)}",
            "said": say_change(trend),
            "tiles": tell_trend_tiles(trend, f"{wanted[2]} × {wanted[3]}" if wanted else ""),
            "causes": list_causes(trend),
            "fits": tell_fits(trend),
            "rows": list_rows(trend),
            "marks": list_marks(trend),
            "cause_names": CAUSES.values(),
            "block_sizes": BLOCKS,
            "problems": tell_problems(place),
            "low_use": tell_low_use(place),
        },
    )


@page
def figure_json(request: HttpRequest, cluster: str) -> HttpResponse:
    """The charts for Plotly, and where a click on a plan's mark leads."""
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request, place)
    trend = read_trend(person_of(request), place, row, wishes.span, wishes.scope)
    wanted = _wanted(row)
    figures = draw_figures(trend, wanted[:2] if wanted else None)
    links = {
        f"mark-{mark.execution_id}": reverse("execution", args=[place.name, mark.execution_id])
        for mark in trend.marks
    }
    return JsonResponse({"figures": figures, "links": links})


@page
def trend_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    place, trend = _exported(request, cluster)
    return csv_file(f"{place.name}-fragmentation-{trend.span}", list_exported(trend))


@page
def trend_json(request: HttpRequest, cluster: str) -> HttpResponse:
    place, trend = _exported(request, cluster)
    body = {
        "cluster": place.name,
        "range": trend.span,
        "since": trend.since.isoformat(),
        "until": trend.until.isoformat(),
        "points": list_exported(trend),
        "gaps": [
            {"begin": gap.begin.isoformat(), "end": gap.end.isoformat(), "why": gap.why} for gap in trend.gaps
        ],
        "plans": [
            {"plan": mark.plan_id, "execution": mark.execution_id, "title": mark.title, "ended": mark.word,
             "at": mark.at.isoformat()}
            for mark in trend.marks
        ],
    }  # fmt: skip
    answer = JsonResponse(body, json_dumps_params={"indent": 1})
    answer["Content-Disposition"] = f'attachment; filename="{place.name}-fragmentation-{trend.span}.json"'
    return answer


def _exported(request: HttpRequest, cluster: str) -> tuple[Cluster, Trend]:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request, place)
    if fragmentation.latest_report(place) is None:
        raise Http404(f"nothing of {cluster} has been measured yet")
    return place, read_trend(person_of(request), place, row, wishes.span, wishes.scope)


def _why_empty(row: Snapshot | None, newest: Report | None, trend: Trend) -> str:
    """Which empty state is shown instead of the charts, "" for none."""
    if newest is None:
        return "unmeasured" if row is not None else "unseen"
    if not newest.total_milli and not any(point.total_milli for point in trend.points):
        return "no gpus"
    if trend.points:
        return ""
    return "unknown part" if trend.scope.path else "nothing in range"


def _pace(span: str) -> int:
    return max(2, round(RANGES[span].total_seconds() / PACE))


def _key(newest: Report | None, trend: Trend) -> str:
    """Changes when the charts would: a new report, a plan carried out, a gap, or time that has gone on."""
    tick = int(trend.until.timestamp() / max(STILL_SECONDS, _pace(trend.span)))
    return f"{newest.pk if newest else 0}-{len(trend.marks)}-{len(trend.gaps)}-{tick}"


def _wanted(row: Snapshot | None) -> tuple[int, str, int, int] | None:
    """GPUs, name, pods and GPUs per pod of the largest gang that waits."""
    if row is None:
        return None
    waiting = pending.waiting_workloads(clusters.open_snapshot(row))
    largest: Any = max(waiting, key=lambda one: one.gpus, default=None)
    if largest is None or not largest.gpus:
        return None
    return largest.gpus, largest.display, len(largest.pods), largest.gpus_per_pod
