"""How long pods with devices waited, per queue and shape, over time."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from apps.clusters import queries as clusters
from apps.dashboard.drawings.waits import draw_waits
from apps.dashboard.reading.times import rough_duration
from apps.dashboard.reading.trend_words import SPANS
from apps.dashboard.views.shell import MISSED, page, show
from apps.fragmentation.trends import RANGES
from apps.pending.history import WaitTrend, wait_trends

LIVE_ON = f"sse:fragmentation throttle:30s, {MISSED}, every 60s"
SHOWN = 60


@dataclass(frozen=True, slots=True)
class WaitRow:
    trend: WaitTrend
    half: str
    slow: str
    drawing: SafeString


@page
def waits(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    span = request.GET.get("range", "24h")
    span = span if span in RANGES else "24h"
    trends = wait_trends(place, span=span, until=timezone.now())
    return show(
        request,
        "queue_waits",
        title="Waits over time",
        here="Queue",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIVE_ON,
        context={
            "rows": [_row(one) for one in trends[:SHOWN]],
            "hidden": max(0, len(trends) - SHOWN),
            "started": sum(one.started for one in trends),
            "span": span,
            "span_words": SPANS[span],
            "spans": [(key, SPANS[key]) for key in RANGES],
        },
    )


def _row(trend: WaitTrend) -> WaitRow:
    def words(seconds: float | None) -> str:
        return "–" if seconds is None else rough_duration(seconds)

    return WaitRow(trend, words(trend.p50_seconds), words(trend.p90_seconds), draw_waits(trend))
