"""People and their roles: who may do what where, and every change of it. For admins who logged in lately."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts import services
from apps.accounts.errors import Denied, LastAdmin, UnusableName
from apps.accounts.models import Role, RoleGrant, User
from apps.accounts.rights import Action
from apps.accounts.services import authorize
from apps.accounts.sessions import require_recent_login
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.views.saying import refuse, refusing, tell
from apps.dashboard.views.shell import page, person_of, show

ROLES = {
    Role.VIEWER: "sees",
    Role.PLANNER: "asks for plans and proposes them",
    Role.APPROVER: "approves what others proposed, never an own plan",
    Role.OPERATOR: "starts and stops executions, throws the kill switch",
    Role.ADMIN: "looks after clusters, policies and people, and approves nothing",
    Role.AUDITOR: "reads the whole ledger",
}


@page
@require_http_methods(["GET", "HEAD", "POST"])
def people(request: HttpRequest) -> HttpResponse:
    """POST adds a person and shows the password in the answer: it is never kept, so it cannot redirect."""
    authorize(request.user, Action.ADMINISTER, None, subject="users")
    made: dict[str, Any] = _add(request) if request.method == "POST" else {}
    grants: dict[int, list[RoleGrant]] = defaultdict(list)
    for grant in RoleGrant.objects.select_related("cluster").order_by("role", "cluster__name"):
        grants[grant.user_id].append(grant)
    return show(
        request,
        "people",
        title="Users",
        here="Users",
        live_on="never",
        context={
            "people": [(person, grants[person.pk]) for person in User.objects.order_by("username")],
            "meanings": ROLES.items(),
            "places": clusters.visible_clusters(request.user),
            "wanted": "" if made else request.POST.get("username", ""),
            **made,
        },
    )


def _add(request: HttpRequest) -> dict[str, Any]:
    password = secrets.token_urlsafe(15)
    try:
        require_recent_login(request, "add a person")
        person = services.create_person(
            actor=person_of(request), username=request.POST.get("username", "").strip(), password=password
        )
    except (Denied, UnusableName) as error:
        refuse(request, error)
        return {}
    return {"made": person, "password": password}


@page
@require_POST
def change(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    authorize(request.user, Action.ADMINISTER, None, subject="users")
    act, person = VERBS.get(verb), User.objects.filter(pk=number).first()
    if act is None or person is None:
        raise Http404(f"nobody can {verb} person {number}")
    with refusing(request, LastAdmin):
        require_recent_login(request, "change what people may do")
        tell(request, act(request, person))
    return redirect("people")


def _grant(request: HttpRequest, person: User) -> str:
    role, place = _wish(request)
    services.grant_role(actor=person_of(request), user=person, role=role, cluster=place)
    return f"{person} is {role} on {place.name if place else 'every cluster'}."


def _revoke(request: HttpRequest, person: User) -> str:
    role, place = _wish(request)
    services.revoke_role(actor=person_of(request), user=person, role=role, cluster=place)
    return f"{person} is no {role} on {place.name if place else 'every cluster'} any more."


def _switch_off(request: HttpRequest, person: User) -> str:
    services.set_person_active(actor=person_of(request), user=person, is_active=False)
    return f"{person} is switched off: sessions and tokens open nothing any more."


def _switch_on(request: HttpRequest, person: User) -> str:
    services.set_person_active(actor=person_of(request), user=person, is_active=True)
    return f"{person} is active again."


def _wish(request: HttpRequest) -> tuple[Role, Cluster | None]:
    """The role, and the cluster that it is about: None for every one."""
    role, name = request.POST.get("role", ""), request.POST.get("cluster", "")
    if role not in Role.values:
        raise Http404(f"there is no role {role!r}")
    return Role(role), clusters.cluster_for(request.user, name) if name else None


VERBS: dict[str, Callable[[HttpRequest, User], str]] = {
    "grant": _grant,
    "revoke": _revoke,
    "switch-off": _switch_off,
    "switch-on": _switch_on,
}
