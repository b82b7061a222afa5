"""The frame around every page: navigation, cluster switch, age, and which of it a live refetch needs.

A page is two templates: `pages/<name>.html` and `pages/<name>_live.html`, the part that changes
with the cluster. htmx asks for the same address again when an event arrives and gets the second alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from apps.accounts import queries as accounts
from apps.accounts.errors import Denied, NotVisible, TooManyRequests
from apps.accounts.models import RoleGrant, User
from apps.accounts.rights import Action
from apps.accounts.services import record_denial
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard.prepared import waiting_count
from apps.dashboard.reading import policies
from apps.dashboard.reading.alerts import tell_bar
from apps.dashboard.reading.times import age_of
from apps.executions import queries as executions
from apps.plans.models import Plan
from apps.plans.states import PlanState

COUNTED = {
    "Queue": ("workload waiting", "workloads waiting"),
    "Plans": ("plan to decide", "plans to decide"),
    "Executions": ("under way", "under way"),
}
MISSED = "missed from:body throttle:5s"
"""console.js says this when the cluster's heartbeat tells of a picture or a trouble that the page lacks."""
METHODS = ("GET", "HEAD", "POST")
View = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    href: str
    here: bool = False
    count: int = 0
    counts: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    head: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Crumb:
    text: str
    href: str


def login_needed(view: View) -> View:
    """As Django's own, but a refetch whose session has ended leads the whole page to the login."""
    whole = login_required(view)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.htmx and not request.user.is_authenticated:  # type: ignore[attr-defined]
            login = f"{reverse('login')}?{urlencode({'next': _page_shown(request)})}"
            return HttpResponse(status=204, headers={"HX-Redirect": login})
        return whole(request, *args, **kwargs)

    return guarded


def _page_shown(request: HttpRequest) -> str:
    """Path of the page that refetches a part of itself; "/" where the header tells no address of ours."""
    try:
        return request.htmx.current_url_abs_path or "/"  # type: ignore[attr-defined, no-any-return]
    except ValueError:
        return "/"


def page(view: View) -> View:
    """For people who are logged in. What they may not see is absent; what they may not do is said,
    and what comes too often."""

    @login_needed
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method not in METHODS:
            return HttpResponseNotAllowed(METHODS)
        if _holds_nul(request.GET) or _holds_nul(request.POST):
            raise SuspiciousOperation("a NUL character in the address or the form")
        try:
            answer = view(request, *args, **kwargs)
        except NotVisible as error:
            record_denial(error)
            raise Http404(str(error)) from error
        except Denied as error:
            record_denial(error)
            answer = render(request, "403.html", {"reason": str(error)}, status=403)
        except TooManyRequests as error:
            answer = render(request, "429.html", {"reason": str(error)}, status=429)
            answer.headers["Retry-After"] = str(error.wait)
        answer.headers.setdefault("Cache-Control", "private, no-store")
        return answer

    return guarded


def _holds_nul(fields: QueryDict) -> bool:
    """No text of ours may hold one: the database cannot keep or compare it."""
    return any("\x00" in text for _, values in fields.lists() for text in values)


def person_of(request: HttpRequest) -> User:
    """Whoever is logged in; `page` lets nobody else come this far."""
    return cast(User, request.user)


def show(
    request: HttpRequest,
    name: str,
    *,
    title: str,
    here: str,
    cluster: Cluster | None = None,
    snapshot_row: Snapshot | None = None,
    crumbs: Sequence[Crumb] = (),
    live_on: str = "",
    waiting: int | None = None,
    context: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """here: text of the navigation link that is current. live_on: events (htmx triggers) that refetch it.
    waiting: how many workloads wait, where that is known already."""
    is_fragment = bool(request.htmx) and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    everything = {
        "title": title,
        "cluster": cluster,
        "crumbs": crumbs,
        "snapshot_row": snapshot_row,
        "age": age_of(
            snapshot_row.taken_at if snapshot_row else None, is_live=cluster is None or cluster.is_live
        ),
        "live_seconds": settings.SNAPSHOT_LIVE_SECONDS,
        "stale_seconds": settings.SNAPSHOT_STALE_SECONDS,
        "live_on": live_on,
        "live_template": f"pages/{name}_live.html",
        "is_fragment": is_fragment,
        "may": accounts.actions_on(request.user, cluster) if cluster else frozenset(),
        "counted_links": partial(_counted_links, cluster),
        **_limits(cluster),
        **(context or {}),
    }
    if is_fragment:
        return render(request, f"pages/{name}_live.html", everything)
    everything |= _frame(request, cluster, here, waiting)
    return render(request, f"pages/{name}.html", everything)


def _limits(cluster: Cluster | None) -> dict[str, Any]:
    """Asked by the few templates that offer a plan."""
    if cluster is None:
        return {}
    asked = (
        policies.most_moves,
        policies.usual_moves,
        policies.most_seconds,
        policies.usual_seconds,
        policies.may_preempt,
    )
    return {one.__name__: partial(one, cluster) for one in asked}


def _frame(request: HttpRequest, cluster: Cluster | None, here: str, waiting: int | None) -> dict[str, Any]:
    visible = list(clusters.visible_clusters(request.user))
    shown_cluster = cluster or _remembered(request, visible)
    if cluster is not None and request.session.get("cluster") != cluster.name:
        request.session["cluster"] = cluster.name  # every write of a session is one of the database
    return {
        "clusters": visible,
        "switch_to": shown_cluster,
        "alert_bar": tell_bar(request.user),
        "standing": policies.tell_standing(cluster) if cluster else None,
        "nav": _navigation(request, shown_cluster, here, _counts(shown_cluster, waiting)),
        "roles": sorted(_roles(request, cluster)),
    }


def _remembered(request: HttpRequest, visible: Sequence[Cluster]) -> Cluster | None:
    name = request.session.get("cluster")
    return next((cluster for cluster in visible if cluster.name == name), visible[0] if visible else None)


def _roles(request: HttpRequest, cluster: Cluster | None) -> set[str]:
    grants = RoleGrant.objects.filter(user=person_of(request))
    ids = {None, cluster.pk} if cluster else {None}
    return {grant.role for grant in grants if grant.cluster_id in ids or cluster is None}


def _counts(cluster: Cluster | None, waiting: int | None) -> dict[str, int]:
    """What waits for somebody: workloads that are pending, plans to decide on, executions under way."""
    if cluster is None:
        return {}
    if waiting is None:
        newest = clusters.latest_snapshot(cluster)
        waiting = waiting_count(cluster, newest) if newest else 0
    return {
        "Queue": waiting,
        "Plans": Plan.objects.filter(cluster=cluster, state=PlanState.PROPOSED).count(),
        "Executions": executions.open_executions().filter(plan__cluster=cluster).count(),
    }


def _counted_links(cluster: Cluster | None) -> list[Link]:
    """For refetches of pages on which people wait for these numbers to change."""
    counts = _counts(cluster, None)
    return [Link(text, "", count=count, counts=_counted(text, count)) for text, count in counts.items()]


def _counted(text: str, count: int) -> str:
    return COUNTED.get(text, ("", ""))[count != 1]


def _navigation(
    request: HttpRequest, cluster: Cluster | None, here: str, counts: Mapping[str, int]
) -> list[Section]:
    def link(text: str, route: str, *args: Any) -> Link:
        count = counts.get(text, 0)
        return Link(text, reverse(route, args=args), text == here, count, _counted(text, count))

    sections = []
    if cluster is not None:
        name = cluster.name
        sections = [
            Section(
                "Seeing",
                (
                    link("Cluster grid", "grid", name),
                    link("Queue", "queue", name),
                    link("Fragmentation", "fragmentation", name),
                    link("MIG", "mig", name),
                    link("What-if", "what-if", name),
                ),
            ),
            Section("Deciding", (link("Plans", "plans", name),)),
            Section("Acting", (link("Executions", "executions", name), link("Held now", "held", name))),
        ]
    governing = [link("Alerts", "alerts"), link("Clusters", "clusters")]
    if accounts.clusters_visible_to(request.user, Action.AUDIT):
        governing.insert(0, link("Audit", "audit"))
    if accounts.may(request.user, Action.ADMINISTER, None):
        governing.append(link("Users", "people"))
    if accounts.clusters_visible_to(request.user, Action.ADMINISTER):
        governing.append(link("Webhooks", "webhooks"))
    governing.append(link("Tokens", "tokens"))
    if cluster is not None:
        governing.insert(0, link("Policies", "policies", cluster.name))
        governing.insert(1, link("Placement", "placement", cluster.name))
        governing.insert(2, link("Preflight", "preflight", cluster.name))
    return [*sections, Section("Governing", tuple(governing))]


@page
def home(request: HttpRequest) -> HttpResponse:
    """The chosen, last seen or first visible cluster's grid; without any, the clusters page."""
    visible = list(clusters.visible_clusters(request.user))
    wanted = request.GET.get("cluster")
    chosen = next((cluster for cluster in visible if cluster.name == wanted), None)
    chosen = chosen or _remembered(request, visible)
    return redirect("grid", chosen.name) if chosen else redirect("clusters")
