"""Audit and clusters: who did what, what is watched."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from apps.accounts import queries as accounts
from apps.accounts.errors import Denied, NotVisible
from apps.accounts.rights import Action
from apps.accounts.services import authorize
from apps.audit import queries as audit
from apps.clusters import errors as cluster_errors
from apps.clusters import queries as clusters
from apps.clusters import services as cluster_services
from apps.clusters.models import Cluster
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.times import age_of
from apps.dashboard.views.saying import refuse, tell
from apps.dashboard.views.shell import page, show
from apps.dashboard.views.uploads import keep_upload, kubeconfig_of
from apps.telemetry import queries as telemetry

ENTRIES_A_PAGE = 100


@page
def audit_list(request: HttpRequest) -> HttpResponse:
    """The ledger, newest first: of the clusters on which this person is auditor, or of everything."""
    sees_all = accounts.may(request.user, Action.AUDIT, None)
    ids = accounts.clusters_visible_to(request.user, Action.AUDIT)
    if not sees_all and not ids:
        authorize(request.user, Action.AUDIT, None, subject="audit ledger")
    names = set(Cluster.objects.filter(pk__in=ids).values_list("name", flat=True))
    entries = audit.entries_visible(None if sees_all else names)
    wanted = {
        name: request.GET.get(name, "")[:120].strip() for name in ("cluster", "action", "subject", "actor")
    }
    entries = _filter(entries, wanted)
    before = request.GET.get("before", "")
    if before.isdecimal() and len(before) < 19:
        entries = entries.filter(pk__lt=int(before))
    shown = list(entries[: ENTRIES_A_PAGE + 1])
    more = shown[ENTRIES_A_PAGE - 1].pk if len(shown) > ENTRIES_A_PAGE else None
    return show(
        request,
        "audit",
        title="Audit",
        here="Audit",
        live_on="never",
        context={
            "entries": shown[:ENTRIES_A_PAGE],
            "more": more,
            "wanted": wanted,
            "names": sorted(names),
            "is_filtered": any(wanted.values()) or bool(before),
        },
    )


def _filter(entries: Any, wanted: dict[str, str]) -> Any:
    if wanted["cluster"]:
        entries = entries.filter(cluster=wanted["cluster"])
    if wanted["action"]:
        entries = entries.filter(action__icontains=wanted["action"])
    if wanted["subject"]:
        entries = entries.filter(subject__icontains=wanted["subject"])
    if wanted["actor"]:
        entries = entries.filter(actor__username__icontains=wanted["actor"])
    return entries


@page
@require_http_methods(["GET", "HEAD", "POST"])
def cluster_list(request: HttpRequest) -> HttpResponse:
    return _add_cluster(request) if request.method == "POST" else show_clusters(request)


def show_clusters(request: HttpRequest, **wanted: str) -> HttpResponse:
    """wanted: what was sent and refused, to be mended."""
    rows = []
    for cluster in clusters.visible_clusters(request.user):
        snapshot = clusters.latest_snapshot(cluster)
        age = age_of(snapshot.taken_at if snapshot else None, is_live=cluster.is_live)
        rows.append((cluster, age, tell_problems(cluster)))
    looked_after = accounts.clusters_visible_to(request.user, Action.ADMINISTER)
    return show(
        request,
        "clusters",
        title="Clusters",
        here="Clusters",
        live_on="every 10s",
        context={
            "rows": rows,
            "may_add": accounts.may(request.user, Action.ADMINISTER, None),
            "looked_after": [
                (cluster, telemetry.source_of(cluster))
                for cluster, _, _ in rows
                if cluster.pk in looked_after
            ],
            "wanted": wanted,
        },
    )


def _add_cluster(request: HttpRequest) -> HttpResponse:
    """The kubeconfig comes as a file or as text. Of a refused one the text that was typed stays in its form;
    what stood in a file is not shown."""
    name, text = request.POST.get("name", "").strip(), request.POST.get("kubeconfig", "")
    try:
        cluster = cluster_services.register_cluster(
            actor=request.user, name=name, kubeconfig=kubeconfig_of(request)
        )
    except NotVisible:
        raise
    except (Denied, cluster_errors.ClusterError) as error:
        refuse(request, error)
        return show_clusters(request, name=name, kubeconfig=text)
    tell(
        request,
        f"Cluster {cluster.name} is registered (Kubernetes {cluster.version}). Its first picture follows.",
    )
    return redirect("grid", cluster.name)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def add_dump(request: HttpRequest) -> HttpResponse:
    """Files that kubectl wrote become a cluster to look at, or the next snapshot of one."""
    if request.method != "POST":
        return redirect("clusters")
    files, name = request.FILES.getlist("files"), request.POST.get("name", "").strip()
    try:
        with TemporaryDirectory() as folder:
            paths = [keep_upload(upload, Path(folder) / str(number)) for number, upload in enumerate(files)]
            cluster = cluster_services.register_dump(actor=request.user, name=name, paths=paths)
    except NotVisible:
        raise
    except (Denied, cluster_errors.ClusterError) as error:
        refuse(request, error)
        return show_clusters(request, dump=name)
    tell(request, f"The dump is shown as {cluster.name}.")
    return redirect("grid", cluster.name)
