"""What if pods of a shape came: the form in the address, every node's verdict, and what would make room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.urls import reverse

from apps.accounts.queries import actions_on
from apps.accounts.rates import require_rate
from apps.accounts.rights import Action
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.plan_lines import list_preemptions
from apps.dashboard.reading.policies import most_moves
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.what_if import (
    RULES,
    Ask,
    draw_line,
    list_choices,
    read_answer,
    read_ask,
    say_shape,
)
from apps.dashboard.reading.what_if_changes import (
    KINDS,
    NEW,
    draw_effect,
    list_offered,
    list_tried,
    say_effect,
    write_change,
)
from apps.dashboard.views.exports import csv_file, json_file, newest
from apps.dashboard.views.shell import MISSED, page, show
from apps.pending import asking
from apps.pending.queries import moves_allowed, waiting_workload
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot as Picture
from apps.planner.unblocking import tell_preemption, tell_unblocking
from apps.planner.waiting import WaitingWorkload
from apps.planner.whatif import LINKS, Shape, Verdict
from apps.planner.whatif_changes import Change, added_nodes, read_changes
from apps.planner.whatif_layouts import BadChange
from apps.plans.policies import policy_of

LIVE_ON = f"sse:snapshot throttle:5s, {MISSED}, every 60s"
LENGTH = 25
PLAIN = "text/plain; charset=utf-8"


@page
def what_if(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    ask = read_ask(request.GET.dict())
    context: dict[str, Any] = {"ask": ask, "links": LINKS, "problems": tell_problems(place)}
    if row is not None:
        picture = clusters.open_snapshot(row)
        if one_more := _one_more(request, picture):
            return one_more
        after, changes, trouble = _change(request, picture)
        context |= {"choices": list_choices(picture), "kinds": KINDS, "offered": list_offered(picture)}
        context |= {"tried": list_tried(changes, request.GET), "trouble": trouble, "told": request.GET}
        if not trouble:
            context |= _answer(request, after, ask, added_nodes(picture, after))
    return show(
        request,
        "what_if",
        title="What if",
        here="What-if",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context=context,
    )


def _one_more(request: HttpRequest, picture: Picture) -> HttpResponse | None:
    """Where the form told of one more change that can be made: the address that has it."""
    text = write_change(request.GET.dict())
    if not text:
        return None
    query = request.GET.copy()
    for name in NEW:
        query.pop(name, None)
    query.appendlist("change", text)
    try:
        asking.change(picture, read_changes(query.getlist("change")))
    except BadChange:
        return None
    return redirect(f"{request.path}?{query.urlencode()}")


def _change(request: HttpRequest, picture: Picture) -> tuple[Picture, tuple[Change, ...], str]:
    """The picture under the changes of the address, those changes, and what is wrong with them."""
    changes: tuple[Change, ...] = ()
    more = write_change(request.GET.dict())
    try:
        changes = read_changes(request.GET.getlist("change"))
        asking.change(picture, (*changes, *read_changes([more])))
        return asking.change(picture, changes), changes, ""
    except BadChange as error:
        return picture, changes, str(error)


def _answer(
    request: HttpRequest, picture: Picture, ask: Ask, added: frozenset[str] = frozenset()
) -> dict[str, Any]:
    waiting = _waiting(request, picture)
    if request.GET.get("workload") and waiting is None:
        return {"gone": request.GET["workload"][:400]}
    verdicts = _verdicts(picture, ask, waiting)
    if verdicts is None:
        return {}
    answer = read_answer(verdicts, len(waiting.pods) if waiting else ask.shape.count if ask.shape else 1)
    shown = Paginator(verdicts, LENGTH).get_page(request.GET.get("page", "1")[:8])
    first = shown.start_index()
    query = request.GET.copy()
    query.pop("page", None)
    return {
        "answer": answer,
        "shown": shown,
        "lines": [draw_line(first + at, one, answer, picture) for at, one in enumerate(shown)],
        "what": waiting.display if waiting else say_shape(ask.shape) if ask.shape else "",
        "waiting": waiting,
        "query": query.urlencode(),
        "added": added,
    }


def _waiting(request: HttpRequest, picture: Picture) -> WaitingWorkload | None:
    key = request.GET.get("workload", "")[:400]
    return waiting_workload(picture, key) if key else None


def _verdicts(picture: Picture, ask: Ask, waiting: WaitingWorkload | None) -> Sequence[Verdict] | None:
    """None while nothing (or nothing that can be read) is asked."""
    if waiting is not None:
        return asking.rank_waiting(picture, waiting.key)
    if ask.shape is None or ask.is_empty:
        return None
    return asking.rank(picture, ask.shape)


@page
def room(request: HttpRequest, cluster: str) -> HttpResponse:
    """What would have to move: a part that is fetched once the page stands, since it takes a while."""
    require_rate("calls", request.user)
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        raise Http404(f"no snapshot of {cluster} is known yet")
    picture, changes, trouble = _change(request, clusters.open_snapshot(row))
    if trouble:
        return HttpResponseBadRequest(trouble, content_type=PLAIN)
    ask, waiting = read_ask(request.GET.dict()), _waiting(request, picture)
    if waiting is None and (ask.shape is None or ask.is_empty):
        return HttpResponseBadRequest("name a shape, or a workload that waits")
    try:
        plan = _plan(picture, ask, waiting, changes)
        is_short = waiting is not None and not plan.unlocked
        most = moves_allowed(place)
        advice = asking.advise_preemption(picture, waiting, changes, most) if is_short and waiting else None
    except asking.PlannerBusy:
        return _busy(request, place, "room")
    context = {"cluster": place, "plan": plan, "sentence": tell_unblocking(plan), "waiting": waiting}
    context["most_moves"] = most_moves(place)
    if advice is not None:
        context |= {"advice": advice, "advised": tell_preemption(advice)}
        context["victims"] = list_preemptions(advice, picture, {}, {})
        context["may_ask"] = not changes and Action.PLAN in actions_on(request.user, place)
        context["may_preempt"] = policy_of(place).may_preempt
    return render(request, "pages/what_if_room.html", context)


def _plan(picture: Picture, ask: Ask, waiting: WaitingWorkload | None, changes: tuple[Change, ...]) -> Plan:
    if waiting is not None:
        return asking.unlock(picture, waiting, changes)
    return asking.make_room(picture, ask.shape or Shape(), changes)


@page
def effect(request: HttpRequest, cluster: str) -> HttpResponse:
    """What the changes would do to the whole cluster: fetched once the page stands, like `room`."""
    require_rate("calls", request.user)
    place, row = newest(request, cluster)
    picture = clusters.open_snapshot(row)
    _, changes, trouble = _change(request, picture)
    if trouble or not changes:
        return HttpResponseBadRequest(trouble or "name a change to try", content_type=PLAIN)
    try:
        found = asking.weigh_changes(place, picture, changes)
    except asking.PlannerBusy:
        return _busy(request, place, "effect")
    context = {"cluster": place, "effect": found, "said": say_effect(found), "lines": draw_effect(found)}
    return render(request, "pages/what_if_effect.html", context)


def _busy(request: HttpRequest, place: Cluster, part: str) -> HttpResponse:
    context = {"cluster": place, "query": request.GET.urlencode(), "part": part}
    return render(
        request,
        "pages/what_if_busy.html",
        {**context, "address": reverse(f"what-if-{part}", args=[place.name])},
    )


@page
def what_if_csv(request: HttpRequest, cluster: str) -> HttpResponse:
    return _export(request, cluster, as_csv=True)


@page
def what_if_json(request: HttpRequest, cluster: str) -> HttpResponse:
    return _export(request, cluster, as_csv=False)


def _export(request: HttpRequest, cluster: str, *, as_csv: bool) -> HttpResponse:
    place, row = newest(request, cluster)
    picture, _, trouble = _change(request, clusters.open_snapshot(row))
    if trouble:
        return HttpResponseBadRequest(trouble, content_type=PLAIN)
    ask = read_ask(request.GET.dict())
    verdicts = _verdicts(picture, ask, _waiting(request, picture))
    if verdicts is None:
        said = " ".join(ask.errors.values()) or "name a shape, or a workload that waits"
        return HttpResponseBadRequest(said, content_type=PLAIN)
    rows = [_row(at, verdict) for at, verdict in enumerate(verdicts, 1)]
    name = f"{place.name}-what-if-{row.pk}"
    return csv_file(name, rows) if as_csv else json_file(name, place, row, "nodes", rows)


def _row(at: int, verdict: Verdict) -> dict[str, Any]:
    met = {rule.rule: rule.is_met for rule in verdict.rules}
    return {
        "rank": at,
        "node": verdict.node,
        "fits": verdict.fits,
        "pods_that_fit": verdict.pods,
        "gpus_free": verdict.free_gpus,
        "score": round(verdict.score, 2),
        "why_not": " ".join(rule.words for rule in verdict.broken),
        **{f"rule_{name.replace('-', '_')}": met.get(name) for name in RULES},
    }
