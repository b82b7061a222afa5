"""The preflight of a cluster and its time in shadow: what can be carried out, and what would have been."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.accounts import queries as accounts
from apps.accounts.rates import require_rate
from apps.accounts.rights import Action
from apps.accounts.sessions import require_recent_login
from apps.clusters import queries as clusters
from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.dashboard.reading.trust import (
    group_lines,
    list_predictions,
    planned_only,
    tell_safe,
    tell_shadow,
)
from apps.dashboard.views.saying import refusing, tell
from apps.dashboard.views.shell import page, person_of, show
from apps.executions import safe_mode
from apps.executions.cluster_preflight import keeping
from apps.executions.console_standing import known_of
from apps.executions.errors import WrongState
from apps.executions.lease_body import NAME
from apps.executions.shadow.standing import why_shadow
from apps.executions.shadow.switching import set_shadow
from apps.executions.shadow.telling import predictions_of, sum_shadow

LIVE_ON = "sse:preflight throttle:1s, sse:policy throttle:1s, every 30s"
PREDICTIONS_SHOWN = 20


@page
def preflight(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = keeping.preflight_of(place)
    lines, shadow = keeping.lines_of(row), why_shadow(place)
    rights = accounts.actions_on(request.user, place)
    predictions = list(predictions_of(place)[:PREDICTIONS_SHOWN])
    return show(
        request,
        "preflight",
        title="Preflight",
        here="Preflight",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIVE_ON,
        context={
            "row": row,
            "groups": group_lines(lines),
            "planned": planned_only(lines),
            "shadow": shadow,
            "may_look": bool({Action.ADMINISTER, Action.OPERATE} & rights),
            "may_switch": Action.ADMINISTER in rights,
            "console": known_of(place),
            "safe": tell_safe(place),
            "lease": f"{settings.STEERING_NAMESPACE}/{NAME}",
            "facts": tell_shadow(sum_shadow(place)) if shadow or predictions else [],
            "predictions": list_predictions(predictions),
        },
    )


@page
@require_POST
def change(request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} a preflight")
    with refusing(request, WrongState, ConnectionFailed):
        require_rate("operating", request.user)
        tell(request, act(request, place))
    return redirect("preflight", place.name)


def _look(request: HttpRequest, place: Cluster) -> str:
    keeping.request_look(actor=person_of(request), cluster=place)
    return f"{place.name} is looked at again; the lines follow in a moment."


def _into_shadow(request: HttpRequest, place: Cluster) -> str:
    set_shadow(actor=person_of(request), cluster_id=place.pk, is_shadow=True)
    return f"{place.name} is in shadow: plans are made and compared, none can be started."


def _out_of_shadow(request: HttpRequest, place: Cluster) -> str:
    set_shadow(actor=person_of(request), cluster_id=place.pk, is_shadow=False)
    return f"{place.name} is not kept in shadow any more."


def _look_around(request: HttpRequest, place: Cluster) -> str:
    safe_mode.ask_for_look(actor=person_of(request), cluster=place)
    return f"What {place.name} carries is looked at again; the list follows in a moment."


def _leave_safe_mode(request: HttpRequest, place: Cluster) -> str:
    require_recent_login(request, "leave safe mode")
    reason = request.POST.get("reason", "")[:500]
    safe_mode.leave(actor=person_of(request), cluster=place, seen=request.POST.get("seen", ""), reason=reason)
    return f"{place.name} has left safe mode. Executions that were under way wait for an operator."


VERBS: dict[str, Callable[[HttpRequest, Cluster], str]] = {
    "look": _look,
    "shadow": _into_shadow,
    "live": _out_of_shadow,
    "look-around": _look_around,
    "leave-safe-mode": _leave_safe_mode,
}
