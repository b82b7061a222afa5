"""What we hold in a cluster now, and the order to release all of it. Workers look and release, never this."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.accounts import queries as accounts
from apps.accounts.rates import require_rate
from apps.accounts.rights import Action
from apps.accounts.sessions import require_recent_login
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.held import SHOWN_AT_MOST, count_standings, list_held
from apps.dashboard.views.saying import refusing, tell
from apps.dashboard.views.shell import page, person_of, show
from apps.executions import ledger
from apps.executions.errors import WrongState
from apps.executions.held import looking, releases
from apps.executions.releasing import Wish, open_executions_on

LIVE_ON = "sse:holdings throttle:1s, sse:execution throttle:2s, every 30s"
WISHES = ("of_others", "even_mid_mig", "of_stopped")


@page
def held(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = looking.holdings_kept(place)
    rights = accounts.actions_on(request.user, place)
    shown = list_held(looking.held_of(row), ledger.database_time())
    rehearsal = releases.newest_release(place, is_rehearsal=True)
    release = releases.newest_release(place, is_rehearsal=False)
    is_done = rehearsal is not None and release is not None and release.pk > rehearsal.pk
    return show(
        request,
        "held",
        title="Held now",
        here="Held now",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIVE_ON,
        context={
            "row": row,
            "rows": shown[:SHOWN_AT_MOST],
            "more": max(0, len(shown) - SHOWN_AT_MOST),
            "total": len(shown),
            "standings": count_standings(shown),
            "may_look": bool({Action.ADMINISTER, Action.OPERATE} & rights),
            "may_release": Action.ADMINISTER in rights,
            "opened": open_executions_on(place),
            "rehearsal": None if is_done else rehearsal,
            "release": release,
        },
    )


@page
@require_POST
def change(request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} what is held")
    with refusing(request, WrongState):
        require_rate("operating", request.user)
        tell(request, act(request, place))
    return redirect("held", place.name)


def _look(request: HttpRequest, place: Cluster) -> str:
    looking.request_look(actor=person_of(request), cluster=place)
    return f"{place.name} is looked at; what is found follows in a moment."


def _rehearse(request: HttpRequest, place: Cluster) -> str:
    wish = Wish(**{name: name in request.POST for name in WISHES}, dry_run=True)
    releases.rehearse_release(actor=person_of(request), cluster=place, wish=wish)
    return f"A worker finds out what would be released on {place.name}; nothing is touched."


def _release(request: HttpRequest, place: Cluster) -> str:
    require_recent_login(request, "release everything")
    shown = request.POST.get("rehearsal", "")
    releases.order_release(
        actor=person_of(request),
        cluster=place,
        rehearsal_id=int(shown) if shown.isascii() and shown.isdecimal() else 0,
        typed_name=request.POST.get("name", ""),
    )
    return f"Everything of ours on {place.name} is being released; what was done follows here."


VERBS: dict[str, Callable[[HttpRequest, Cluster], str]] = {
    "look": _look,
    "rehearse": _rehearse,
    "release": _release,
}
