"""What an admin changes about a registered cluster: watched or not, its credential, a dump that is to go."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from apps.accounts.errors import Denied, NotVisible
from apps.clusters import queries as clusters
from apps.clusters import services
from apps.clusters.errors import ClusterError
from apps.clusters.models import Cluster
from apps.clusters.removing import remove_dump
from apps.dashboard.views.governing import show_clusters
from apps.dashboard.views.saying import refuse, tell
from apps.dashboard.views.shell import page
from apps.dashboard.views.uploads import kubeconfig_of
from apps.telemetry.errors import TelemetryError
from apps.telemetry.services import connect_prometheus


@page
@require_POST
def change(request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} a cluster")
    try:
        tell(request, act(request, place))
    except NotVisible:
        raise
    except TelemetryError as error:
        # What was typed stays in its form, to be mended; the token is not shown again.
        refuse(request, error)
        typed = {name: request.POST.get(name, "") for name in ("address", "ca")}
        return show_clusters(request, measured=place.name, **typed)
    except (Denied, ClusterError) as error:
        refuse(request, error)
    return redirect("clusters")


def _watch(request: HttpRequest, place: Cluster) -> str:
    services.set_cluster_active(actor=request.user, cluster_id=place.pk, is_active=True)
    return f"{place.name} is watched: its next picture follows."


def _leave(request: HttpRequest, place: Cluster) -> str:
    services.set_cluster_active(actor=request.user, cluster_id=place.pk, is_active=False)
    return f"{place.name} is not watched any more. What is known of it stays."


def _replace_credential(request: HttpRequest, place: Cluster) -> str:
    services.replace_credentials(
        actor=request.user,
        cluster_id=place.pk,
        kubeconfig=kubeconfig_of(request),
        rebuilt=bool(request.POST.get("rebuilt")),
    )
    return f"{place.name} has a new credential, and answers with it."


def _read_telemetry(request: HttpRequest, place: Cluster) -> str:
    """Empty fields for token and CA keep what is stored; the box takes it away."""
    forgets = bool(request.POST.get("forget"))
    source = connect_prometheus(
        actor=request.user,
        cluster_id=place.pk,
        address=request.POST.get("address", "").strip(),
        token=request.POST.get("token", "").strip() or ("" if forgets else None),
        ca_certificate=request.POST.get("ca", "").strip() or ("" if forgets else None),
    )
    if source is None:
        return f"The telemetry of {place.name} is read from nowhere any more."
    return f"The telemetry of {place.name} is read from {source.address}, every 15 s."


def _remove(request: HttpRequest, place: Cluster) -> str:
    return f"The dump {remove_dump(actor=request.user, cluster_id=place.pk)} is removed."


VERBS: dict[str, Callable[[HttpRequest, Cluster], str]] = {
    "watch": _watch,
    "leave": _leave,
    "credential": _replace_credential,
    "telemetry": _read_telemetry,
    "remove": _remove,
}
