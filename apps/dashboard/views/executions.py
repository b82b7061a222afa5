"""Executions: the list, the live page of one, and pause, resume, cancel and roll back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Max, Min
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.errors import Denied, NotVisible
from apps.accounts.rates import require_rate
from apps.clusters import queries as clusters
from apps.dashboard.reading.cuts import list_cuts
from apps.dashboard.reading.events import list_events
from apps.dashboard.reading.execution_page import (
    KIND_WORDS,
    MOVE_COLUMNS,
    STATES,
    count_progress,
    list_moves,
    list_nodes,
    node_kinds,
)
from apps.dashboard.reading.gpu_hours import tell_panel, tell_total
from apps.dashboard.reading.keys import key_of
from apps.dashboard.reading.lanes import Told, draw_lanes
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.move_now import sum_up
from apps.dashboard.reading.outcome import tell_outcome
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.standing_still import list_cards, list_held_rows
from apps.dashboard.reading.stopping import tell_stopping
from apps.dashboard.views.parts import part_unchanged, show_part
from apps.dashboard.views.saying import refuse, refusing, tell
from apps.dashboard.views.shell import MISSED, Crumb, page, person_of, show
from apps.executions import errors, queries, services
from apps.executions.bundle import make_bundle
from apps.executions.cause import Way
from apps.executions.gpu_hours.telling import sum_hours, tell_hours
from apps.executions.models import Execution, Step
from apps.executions.permission import ban_now
from apps.executions.repairing import repair_nodes, steps_to_repair
from apps.executions.settling import settle_by_hand
from apps.executions.states import ALLOWED, TERMINAL, ExecutionState, StepState
from apps.executions.ways import mark_of_standing, steps_to_settle, ways_on
from apps.plans import queries as plans

LIST_LIVE_ON = f"sse:execution throttle:1s, {MISSED}, every 30s"
PAGE_LIVE_ON = f"sse:execution throttle:1s, sse:policy throttle:1s, {MISSED}, every 5s"
GOES_ON = ("resume", "repair", "settle")
"""Told how it stood when the page was drawn; what stops or gives back is never held up by that."""
LIST_LENGTH, EVENTS_SHOWN, EVENTS_READ = 100, 200, 2000


@page
def executions(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    found = queries.executions_for(request.user, place)[:LIST_LENGTH]
    return show(
        request,
        "executions",
        title="Executions",
        here="Executions",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIST_LIVE_ON,
        context={
            "executions": [(one, STATES[one.state]) for one in found],
            "problems": tell_problems(place),
            "limit": LIST_LENGTH,
            "hours_total": tell_total(sum_hours(place)),
        },
    )


def _find(request: HttpRequest, cluster: str, number: int) -> Execution:
    place = clusters.cluster_for(request.user, cluster)
    row = queries.execution_for(request.user, number)
    if row.plan.cluster_id != place.pk:
        raise Http404(f"cluster {cluster} has no execution {number}")
    return row


@page
def execution(request: HttpRequest, cluster: str, number: int) -> HttpResponse:
    row = _find(request, cluster, number)
    steps = list(queries.steps_of(row))
    context: dict[str, Any] = {"execution": row, "state": STATES[row.state], **_actions(row, steps)}
    if request.GET.get("part") == "actions":
        if part_unchanged(request, context["actions_key"]):
            return HttpResponse(status=204)
        return show_part(request, "pages/execution_actions.html", row.plan.cluster, context)
    context |= _draw(row, steps)
    return show(
        request,
        "execution",
        title=f"Execution {row.pk}",
        here="Executions",
        cluster=row.plan.cluster,
        snapshot_row=clusters.latest_snapshot(row.plan.cluster),
        crumbs=(Crumb("Executions", reverse("executions", args=[cluster])),),
        live_on=PAGE_LIVE_ON,
        context=context,
    )


def _actions(row: Execution, steps: Sequence[Step]) -> dict[str, Any]:
    """Which of the ways on or out the state allows now."""
    allowed = ALLOWED[ExecutionState(row.state)]
    ways, stopping = ways_on(row, steps), tell_stopping(row, steps)
    can_resume = Way.RESUME in ways
    ban = ban_now(row.plan.cluster) if can_resume else None
    to_repair = [step.params["node"] for step in steps_to_repair(steps)]
    mark = mark_of_standing(row, steps)
    seen = (row.state, row.is_frozen, ban.sentence if ban else "", ways, stopping, to_repair, mark)
    return {
        "standing_mark": mark,
        "actions_key": key_of(*seen),
        "stopping": stopping,
        "ban": ban,
        "can_pause": ExecutionState.PAUSED in allowed
        and (row.state != ExecutionState.PAUSED or row.is_frozen),
        "can_resume": can_resume,
        "can_cancel": Way.CANCEL in ways,
        "can_roll_back": Way.ROLL_BACK in ways,
        "can_settle": Way.SETTLE in ways,
        "to_repair": to_repair,
        "to_settle": [step.target for step in steps_to_settle(steps)],
        "is_over": row.state in TERMINAL,
    }


def _draw(row: Execution, steps: Sequence[Step]) -> dict[str, Any]:
    plan = plans.open_plan(row.version)
    snapshot = clusters.open_snapshot(row.version.snapshot) if row.version.snapshot else None
    marks = look_at(snapshot).marks if snapshot else {}
    kinds, told = node_kinds(steps), _told(row)
    waves = list_moves(steps, plan, marks, row.started_at, is_over=row.state in TERMINAL)
    return {
        "progress": count_progress(steps),
        "has_steps": bool(steps),
        "waves": waves,
        "cuts": list_cuts(plan, snapshot, steps=steps),
        "nodes": list_nodes(steps, kinds, row.started_at),
        "move_heads": [KIND_WORDS[kind] for kind in MOVE_COLUMNS],
        "node_heads": [KIND_WORDS[kind] for kind in kinds],
        "cards": list_cards(row, steps, told.blocked),
        "held": list_held_rows(row, steps),
        "summary": sum_up(move.now for wave in waves for move in wave.rows),
        "lanes": draw_lanes(row, steps, plan, told, timezone.now()),
        "events": list_events(queries.events_of(row).order_by("-id")[:EVENTS_READ])[:EVENTS_SHOWN],
        "outcome": tell_outcome(row),
        "hours": tell_panel(tell_hours(row)),
        "problems": tell_problems(row.plan.cluster),
    }


def _told(row: Execution) -> Told:
    events = queries.events_of(row).filter(step__isnull=False).order_by()
    blocked = events.filter(state=StepState.BLOCKED).values_list("step")
    return Told(
        begun=dict(events.values_list("step").annotate(Min("at"))),
        blocked=dict(blocked.annotate(Min("at"))),
        blocked_last=dict(blocked.annotate(Max("at"))),
    )


@page
@require_POST
def act(request: HttpRequest, cluster: str, number: int, verb: str) -> HttpResponse:
    row = _find(request, cluster, number)
    known = {
        "pause": (services.pause, "You paused it: nothing new is started."),
        "resume": (services.resume, "You resumed it."),
        "cancel": (services.cancel, "You cancelled it."),
        "roll-back": (services.roll_back, "You asked to roll it back."),
        "repair": (repair_nodes, "You asked for the earlier MIG layout: it goes on waiting meanwhile."),
        "settle": (settle_by_hand, "You dealt with it by hand: the rest is undone."),
    }
    if verb not in known:
        raise Http404(f"nobody can {verb} an execution")
    service, told = known[verb]
    with refusing(request, errors.ExecutionError):
        require_rate("operating", request.user)
        told_by = {"reason": request.POST.get("reason", "")[:500]}
        if verb in GOES_ON:
            told_by["seen"] = request.POST.get("seen", "")[:40]
        service(execution_id=row.pk, actor=person_of(request), **told_by)
        tell(request, told)
    return redirect("execution", cluster, number)


@page
@require_GET
def bundle(request: HttpRequest, cluster: str, number: int) -> HttpResponseBase:
    """The incident bundle as a file."""
    row = _find(request, cluster, number)
    try:
        file = make_bundle(execution=row, actor=person_of(request))
    except NotVisible:
        raise
    except Denied as error:
        refuse(request, error)
        return redirect("execution", cluster, number)
    return FileResponse(file, as_attachment=True, filename=f"execution-{row.pk}.zip")
