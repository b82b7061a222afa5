"""Alerts: what is wrong now, what was, and the bar that every page shows."""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.alerts.queries import alerts_for
from apps.alerts.states import Kind
from apps.clusters.queries import visible_clusters
from apps.dashboard.reading.alerts import tell_bar
from apps.dashboard.views.shell import page, show

MOST = 200


@page
def alerts(request: HttpRequest) -> HttpResponse:
    wanted = {name: request.GET.get(name, "")[:63] for name in ("cluster", "kind", "only")}
    found = alerts_for(request.user)
    if wanted["cluster"]:
        found = found.filter(cluster__name=wanted["cluster"])
    if wanted["kind"]:
        found = found.filter(kind=wanted["kind"])
    if wanted["only"] == "open":
        found = found.filter(cleared_at=None)
    context: dict[str, Any] = {
        "alerts": found.order_by(F("cleared_at").desc(nulls_first=True), "-id")[:MOST],
        "most": MOST,
        "wanted": wanted,
        "is_filtered": any(wanted.values()),
        "names": [cluster.name for cluster in visible_clusters(request.user)],
        "kinds": Kind.choices,
    }
    return show(request, "alerts", title="Alerts", here="Alerts", live_on="every 10s", context=context)


@page
def alert_bar(request: HttpRequest) -> HttpResponse:
    """The bar alone, which every page asks for again."""
    return render(request, "console/alerts.html", {"alert_bar": tell_bar(request.user)})
