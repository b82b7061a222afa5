"""The page of one node: links, holders, pods with movability, MIG layouts, warnings, taints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.clusters import queries as clusters
from apps.clusters.accepting import accept_drift
from apps.clusters.errors import ClusterError
from apps.clusters.models import Cluster
from apps.dashboard.drawings.grid import Brush, draw_strip
from apps.dashboard.drawings.topology import SCALE, draw_matrix, draw_nics
from apps.dashboard.reading.device_rows import read_devices, tell_node_counts
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.measures import read_measures
from apps.dashboard.reading.mig import draw_node, look_at_mig
from apps.dashboard.reading.mig_change import find_since, list_running
from apps.dashboard.reading.mig_trouble import list_troubles
from apps.dashboard.reading.node_links import tell_link_facts
from apps.dashboard.reading.node_page import (
    list_fits,
    list_pods,
    tell_facts,
    tell_links,
    tell_resource,
)
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.sharing import read_sharing
from apps.dashboard.reading.telemetry import tell_node
from apps.dashboard.views.saying import refuse, tell
from apps.dashboard.views.shell import MISSED, Crumb, page, show
from apps.fragmentation import queries as fragmentation
from apps.planner.snapshot import Snapshot as Picture

LIVE_ON = f"sse:snapshot throttle:1s, {MISSED}, every 30s"


@page
@require_POST
def accept(request: HttpRequest, cluster: str, node: str) -> HttpResponse:
    """The node is meant to be as it is now: the watcher's next picture expects no more of it.

    Only what the page showed is accepted, of the node that has this name.
    """
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    found = clusters.open_snapshot(row).nodes.get(node) if row is not None else None
    if found is None:
        raise Http404(f"cluster {cluster} has no node {node}")
    is_as_shown = (found.uid, list(found.drift)) == (request.POST.get("uid"), request.POST.getlist("drift"))
    if not is_as_shown and may(request.user, Action.OPERATE, place):
        refuse(request, ClusterError(f"{node} shows something else by now: look at it again, then accept it"))
        return redirect("node", cluster, node)
    accept_drift(actor=request.user, cluster_id=place.pk, node_uid=found.uid, node=node)
    tell(request, f"From now on {node} is expected to be as it is now.")
    return redirect("node", cluster, node)


@page
def node(request: HttpRequest, cluster: str, node: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        raise Http404(f"no snapshot of {cluster} is known yet")
    picture = clusters.open_snapshot(row)
    if node not in picture.nodes:
        raise Http404(f"cluster {cluster} has no node {node}")
    look = look_at(picture, read_measures(fragmentation.latest_report(place)))
    view, marks = look.view_of(node), look.marks
    context: dict[str, Any] = {"node": picture.nodes[node], "problems": tell_problems(place)}
    if view is not None:
        pods = list_pods(picture, view, marks)
        context |= {
            "view": view,
            "facts": tell_facts(view),
            "pods": pods,
            "movable": sum(line.verdict == "Movable" for line in pods),
            "panel": read_devices(place, view, marks),
            "counts": tell_node_counts(view),
            "warnings": [one for one in view.node.warnings if one not in view.node.drift],
            "gpu_resource": tell_resource(view.node),
            "sharing": read_sharing(view, marks),
            **_mig(place, picture, view, marks),
            "measured": tell_node(place, picture, view.node),
            "strip": draw_strip(view, Brush("work", marks, "")),
            **_links(view),
        }
    return show(
        request,
        "node",
        title=node,
        here="Cluster grid",
        cluster=place,
        snapshot_row=row,
        crumbs=(Crumb("Cluster grid", reverse("grid", args=[place.name])),),
        live_on=LIVE_ON,
        context=context,
    )


def _mig(place: Cluster, picture: Picture, view: NodeView, marks: Mapping[str, Mark]) -> dict[str, Any]:
    """Strips by start and size, and how a change of its layout stands; nothing where MIG is not in use."""
    mig = look_at_mig(picture).node_named(view.node.name)
    if mig is None or not (mig.is_used or mig.change.is_under_way or mig.change.is_broken):
        return {"mig_idle": mig}
    since = find_since(place, [mig])
    return {
        "mig": draw_node(mig, marks, {pod.uid: pod.name for pod in view.pods}),
        "running": list_running(place, [mig], since),
        "troubles": list_troubles([mig], since, timezone.now()),
    }


def _links(view: NodeView) -> dict[str, Any]:
    node, why = view.node, tell_links(view.node)
    if why or node.topology is None:
        return {"no_links": why}
    topology = node.topology
    return {
        "matrix": draw_matrix(node, view.seats.free, topology.links),
        "matrix_rows": [(node.gpus[at].index, row) for at, row in enumerate(topology.links)],
        "nics": draw_nics(node, [name for name, _ in topology.nics], topology.nic_links)
        if topology.nic_links
        else "",
        "nic_count": len(topology.nics),
        "scale": SCALE,
        "fits": list_fits(view),
        "topology": topology,
        "link_facts": tell_link_facts(node, topology),
    }
