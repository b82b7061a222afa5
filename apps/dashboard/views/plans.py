"""Plans: the list, the page of one, asking for one, and every decision on it.

A decision is a plain form: it calls one service and comes back to the page. What the service
refuses stands on the page as one line.
"""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.errors import Denied, NotVisible, TooManyRequests
from apps.accounts.rates import require_rate
from apps.accounts.sessions import logged_in_at
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.fate import tell_fate
from apps.dashboard.reading.plan_picture import draw_plan
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.views.parts import part_unchanged, show_part
from apps.dashboard.views.saying import refuse, tell
from apps.dashboard.views.shell import MISSED, Crumb, page, person_of, show
from apps.executions import errors as execution_errors
from apps.executions import services as executions
from apps.plans import errors as plan_errors
from apps.plans import queries, services
from apps.plans.models import Plan
from apps.plans.waivers import waivers_of

REFUSALS = (
    Denied,
    TooManyRequests,
    plan_errors.InvalidRequest,
    plan_errors.TooManyDrafts,
    plan_errors.NothingKnown,
    plan_errors.WrongState,
    plan_errors.OutdatedView,
    plan_errors.DigestMismatch,
    execution_errors.ExecutionError,
)
LIST_LIVE_ON = f"sse:plan throttle:1s, sse:execution throttle:2s, {MISSED}, every 30s"
PAGE_LIVE_ON = (
    "sse:search throttle:500ms, sse:plan throttle:1s, sse:policy throttle:1s, sse:execution throttle:2s, "
    f"sse:snapshot throttle:5s, {MISSED}, every 30s"
)
LIST_LENGTH = 100


@page
@require_http_methods(["GET", "HEAD", "POST"])
def plans(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    if request.method == "POST":
        return _ask_for_plan(request, place)
    found = queries.plans_for(request.user, place).prefetch_related("executions")[:LIST_LENGTH]
    rows = [(plan, tell_fate(plan)) for plan in found]
    return show(
        request,
        "plans",
        title="Plans",
        here="Plans",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIST_LIVE_ON,
        context={"plans": rows, "problems": tell_problems(place), "limit": LIST_LENGTH},
    )


def _ask_for_plan(request: HttpRequest, place: Cluster) -> HttpResponse:
    try:
        require_rate("planning", request.user)
        plan = services.request_plan(
            actor=person_of(request),
            cluster=place,
            goal=request.POST.get("goal", ""),
            workload=request.POST.get("workload", ""),
            max_moves=_whole(request, "max_moves", "moves"),
            seconds=_whole(request, "seconds", "seconds"),
            may_preempt=request.POST.get("may_preempt") == "yes",
        )
    except NotVisible:
        raise
    except REFUSALS as error:
        refuse(request, error)
        return redirect("plans", place.name)
    return redirect("plan", place.name, plan.pk)


def _whole(request: HttpRequest, name: str, what: str) -> int | None:
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise plan_errors.InvalidRequest(f"{name} must be a whole number of {what}, not {text[:20]!r}")
    return int(text)


def _find(request: HttpRequest, cluster: str, number: int) -> Plan:
    place = clusters.cluster_for(request.user, cluster)
    plan = queries.plan_for(request.user, number)
    if plan.cluster_id != place.pk:
        raise Http404(f"cluster {cluster} has no plan {number}")
    return plan


@page
def plan(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    row = _find(request, cluster, number)
    picture = draw_plan(row, request.user)
    context: dict[str, Any] = {"picture": picture, "plan": row, "problems": tell_problems(row.cluster)}
    if request.GET.get("part") == "decide":
        if part_unchanged(request, picture.decide_key):
            return HttpResponse(status=204)
        return show_part(request, "pages/plan_decide.html", row.cluster, context)
    return show(
        request,
        "plan",
        title=f"Plan {row.pk}",
        here="Plans",
        cluster=row.cluster,
        snapshot_row=clusters.latest_snapshot(row.cluster),
        crumbs=(Crumb("Plans", reverse("plans", args=[cluster])),),
        live_on=PAGE_LIVE_ON,
        context=context,
    )


@page
@require_POST
def decide(request: HttpRequest, cluster: str, number: int, verb: str) -> HttpResponse:
    row = _find(request, cluster, number)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} a plan")
    try:
        require_rate("deciding", request.user)
        return act(request, row)
    except NotVisible:
        raise
    except REFUSALS as error:
        refuse(request, error)
        return redirect("plan", cluster, number)


def _back(row: Plan) -> HttpResponse:
    return redirect("plan", row.cluster.name, row.pk)


def _propose(request: HttpRequest, row: Plan) -> HttpResponse:
    ticket = request.POST.get("change_ticket", "")[:200]
    services.propose_plan(plan_id=row.pk, actor=person_of(request), change_ticket=ticket)
    tell(request, f"Plan {row.pk} is proposed: an approver other than you decides now.")
    return _back(row)


def _approve(request: HttpRequest, row: Plan) -> HttpResponse:
    services.approve_plan(
        plan_id=row.pk,
        digest=request.POST.get("digest", ""),
        approver=person_of(request),
        comment=request.POST.get("comment", "")[:2000],
        logged_in_at=logged_in_at(request),
    )
    tell(request, f"Plan {row.pk} is approved: an operator can start it.")
    return _back(row)


def _reject(request: HttpRequest, row: Plan) -> HttpResponse:
    comment = request.POST.get("comment", "")[:2000]
    services.reject_plan(
        plan_id=row.pk, digest=request.POST.get("digest", ""), approver=person_of(request), comment=comment
    )
    tell(request, f"Plan {row.pk} is rejected.")
    return _back(row)


def _withdraw(request: HttpRequest, row: Plan) -> HttpResponse:
    services.withdraw_plan(plan_id=row.pk, actor=person_of(request))
    tell(request, f"Plan {row.pk} is withdrawn.")
    return _back(row)


def _revise(request: HttpRequest, row: Plan) -> HttpResponse:
    services.revise_plan(
        plan_id=row.pk,
        actor=person_of(request),
        max_moves=_whole(request, "max_moves", "moves"),
        seconds=_whole(request, "seconds", "seconds"),
        may_preempt=request.POST.get("may_preempt") == "yes",
    )
    return _back(row)


def _waive(request: HttpRequest, row: Plan) -> HttpResponse:
    """The waivers that it has, and one more."""
    kept = [{"pod": one.pod, "reason": one.reason} for one in waivers_of(row.request)]
    wish = {"pod": request.POST.get("pod", "").strip(), "reason": request.POST.get("reason", "")}
    kept = [one for one in kept if one["pod"] != wish["pod"]]
    services.revise_plan(plan_id=row.pk, actor=person_of(request), waivers=[*kept, wish])
    tell(request, f"Plan {row.pk} is computed anew, with the waiver for {wish['pod']}.")
    return _back(row)


def _stop(request: HttpRequest, row: Plan) -> HttpResponse:
    services.stop_search(plan_id=row.pk, actor=person_of(request))
    return _back(row)


def _start(request: HttpRequest, row: Plan) -> HttpResponse:
    execution = executions.start_execution(actor=person_of(request), plan_id=row.pk)
    return redirect("execution", row.cluster.name, execution.pk)


VERBS = {
    "propose": _propose,
    "approve": _approve,
    "reject": _reject,
    "withdraw": _withdraw,
    "revise": _revise,
    "waive": _waive,
    "stop": _stop,
    "start": _start,
}
