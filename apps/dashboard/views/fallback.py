"""The part of the queue's page that offers less GPU memory: fetched once the queue stands."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts import queries as accounts
from apps.accounts.rates import require_rate
from apps.clusters import queries as clusters
from apps.dashboard.reading.callout import open_plans
from apps.dashboard.views.exports import newest
from apps.dashboard.views.shell import page
from apps.pending.asking import PlannerBusy, weigh_fallbacks
from apps.plans.fallback_api import as_row
from apps.plans.policies import fallback_limits, policy_of

MOST_ROWS = 50


@page
def fallbacks(request: HttpRequest, cluster: str) -> HttpResponse:
    require_rate("calls", request.user)
    place, row = newest(request, cluster)
    limits = fallback_limits(policy_of(place))
    try:
        found = weigh_fallbacks(clusters.open_snapshot(row), limits)
    except PlannerBusy:
        return render(request, "pages/queue_fallbacks.html", {"cluster": place, "is_busy": True})
    plans = open_plans(request.user, place)
    rows = [{**as_row(one, lowering), "plan": plans.get(one.key)} for one, lowering in found[:MOST_ROWS]]
    context = {"cluster": place, "rows": rows, "more": max(0, len(found) - MOST_ROWS), "limits": limits}
    context["may"] = accounts.actions_on(request.user, place)
    return render(request, "pages/queue_fallbacks.html", context)
