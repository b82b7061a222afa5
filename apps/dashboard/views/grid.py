"""The cluster grid (home), the panel of the chosen node, and both as CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard.drawings.grid import Brush, columns_class, draw_rows
from apps.dashboard.drawings.meters import draw_ramp
from apps.dashboard.reading.callout import call_out
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.measures import read_measures
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.panel import describe_node
from apps.dashboard.reading.picture import (
    GROUPINGS,
    SORTS,
    count_totals,
    find_nodes,
    group_nodes,
)
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.reading.tiles import is_gpu_waited_for, tell_tiles
from apps.dashboard.views.shell import MISSED, page, show
from apps.fragmentation import queries as fragmentation
from apps.planner.snapshot import Snapshot as Picture

MODES = {"work": "Workload", "heat": "Fragmentation", "link": "Link groups"}
TOPICS = ("snapshot throttle:1s", "fragmentation throttle:1s", "plan throttle:1s")
LIVE_ON = ", ".join([*(f"sse:{topic}" for topic in TOPICS), MISSED, "every 30s"])
LEGEND_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the address asks for; anything unknown falls back to the first choice."""

    mode: str
    sort: str
    group: str
    find: str
    node: str

    @classmethod
    def read(cls, request: HttpRequest) -> Wishes:
        def choose(name: str, allowed: Any) -> str:
            value = request.GET.get(name, "")
            return value if value in allowed else next(iter(allowed))

        return cls(
            mode=choose("mode", MODES),
            sort=choose("sort", SORTS),
            group=choose("group", GROUPINGS),
            find=request.GET.get("find", "")[:120],
            node=request.GET.get("node", "")[:253],
        )


@page
def grid(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request)
    context: dict[str, Any] = {
        "wishes": wishes,
        "modes": MODES,
        "sorts": {key: text for key, (text, _) in SORTS.items()},
        "groupings": {key: text for key, (text, _) in GROUPINGS.items()},
        "problems": tell_problems(place),
    }
    if row is not None:
        picture = clusters.open_snapshot(row)
        context |= _draw(place, row, picture, wishes)
        context["callout"] = call_out(request.user, place, picture)
    return show(
        request,
        "grid",
        title="Cluster grid",
        here="Cluster grid",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context=context,
    )


def _draw(place: Cluster, row: Snapshot, picture: Picture, wishes: Wishes) -> dict[str, Any]:
    measures = read_measures(fragmentation.latest_report(place))
    look = look_at(picture, measures)
    views, marks, legend = look.views, look.marks, look.legend
    found = find_nodes(views, marks, wishes.find)
    chosen = look.view_of(wishes.node) or _first(found or views)
    brush = Brush(
        mode=wishes.mode,
        marks=marks,
        address=reverse("node", args=[place.name, "NODE"]),
        selected=chosen.node.name if chosen else "",
    )
    groups = [(group, draw_rows(group, brush)) for group in group_nodes(found, wishes.group, wishes.sort)]
    return {
        **tell_tiles(count_totals(views), measures, views, is_waited_for=is_gpu_waited_for(picture)),
        "groups": groups,
        "ramp": _ramp(wishes.mode),
        "columns": columns_class([group for group, _ in groups]),
        "legend": legend[:LEGEND_LENGTH],
        "legend_more": max(0, len(legend) - LEGEND_LENGTH),
        "chosen": describe_node(picture, chosen, marks) if chosen else None,
        "empty_cluster": not views,
        "node_count": len(picture.nodes),
    }


def _ramp(mode: str) -> str:
    if mode == "heat":
        return draw_ramp("q", "0 %, useful", "100 %, stranded")
    return draw_ramp("l", "8, whole node", "1, alone") if mode == "link" else ""


def _first(views: Sequence[NodeView]) -> NodeView | None:
    """The node that the panel shows before anybody chose one: the one most worth defragmenting."""
    return min(views, key=SORTS["worth"][1], default=None)


@page
def node_panel(request: HttpRequest, cluster: str, node: str) -> HttpResponse:
    """The side panel for one node, fetched when a row is looked at."""
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        return render(request, "pages/grid_panel.html", {"gone": node, "cluster": place})
    picture = clusters.open_snapshot(row)
    look = look_at(picture, read_measures(fragmentation.latest_report(place)))
    view = look.view_of(node)
    if view is None:
        return render(request, "pages/grid_panel.html", {"gone": node, "cluster": place})
    chosen = describe_node(picture, view, look.marks)
    return render(request, "pages/grid_panel.html", {"chosen": chosen, "cluster": place})
