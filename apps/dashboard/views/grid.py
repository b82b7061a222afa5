"""The cluster grid (home): as rows drawn here, or dense, from what is prepared; and the panel of a node.

A dense grid costs the server little: its numbers come from a row that a worker prepared, its cells from
`picture_json`, which is the same for everybody and is drawn in the browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster, Snapshot
from apps.dashboard import prepared
from apps.dashboard.drawings.grid import Brush, columns_class, draw_rows
from apps.dashboard.drawings.meters import draw_meter, draw_ramp
from apps.dashboard.models import GridPicture
from apps.dashboard.reading.callout import call_out, first_waiting
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
from apps.dashboard.views.answers import prepared_answer
from apps.dashboard.views.shell import MISSED, page, show
from apps.fragmentation import queries as fragmentation
from apps.planner.snapshot import Snapshot as Picture

MODES = {"work": "Workload", "heat": "Fragmentation", "link": "Link groups"}
VIEWS = {"": "by size", "rows": "Rows", "dense": "Dense"}
TOPICS = ("snapshot throttle:1s", "fragmentation throttle:1s", "plan throttle:1s")
LIVE_ON = ", ".join([*(f"sse:{topic}" for topic in TOPICS), MISSED, "every 30s"])
DENSE_TOPICS = ("grid throttle:1s", "plan throttle:1s")
DENSE_LIVE_ON = ", ".join([*(f"sse:{topic}" for topic in DENSE_TOPICS), MISSED, "every 30s"])
LEGEND_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the address asks for; anything unknown falls back to the first choice."""

    mode: str
    sort: str
    group: str
    find: str
    node: str
    view: str

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
            view=choose("view", VIEWS),
        )

    def is_dense(self, row: Snapshot) -> bool:
        return self.view == "dense" or (
            self.view == "" and row.summary.get("gpu_nodes", 0) >= prepared.DENSE_FROM
        )

    def address(self, view: str) -> str:
        """The query for the same wishes in the other view."""
        wishes = {"mode": self.mode, "sort": self.sort, "group": self.group}
        return urlencode({"view": view, **wishes, **({"find": self.find} if self.find else {})})


@page
def grid(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request)
    is_dense = row is not None and wishes.is_dense(row)
    context: dict[str, Any] = {
        "wishes": wishes,
        "modes": MODES,
        "sorts": {key: text for key, (text, _) in SORTS.items()},
        "groupings": {key: text for key, (text, _) in GROUPINGS.items()},
        "problems": tell_problems(place),
        "other_view": wishes.address("rows" if is_dense else "dense"),
    }
    if row is not None and is_dense:
        ready = prepared.grid_of(place, row)
        if ready.snapshot_id != row.pk:
            row = clusters.snapshots_of(place).filter(pk=ready.snapshot_id).first() or row
        context |= _tell(request, place, ready)
    elif row is not None:
        picture = clusters.open_snapshot(row)
        context |= _draw(place, row, picture, wishes)
        context["callout"] = call_out(request.user, place, first_waiting(picture))
    shown = "none" if row is None or context.get("empty_cluster") else "dense" if is_dense else "rows"
    if request.htmx and request.GET.get("shown", shown) != shown:  # type: ignore[attr-defined]
        # The frame around what is refetched differs too: the first picture came, or the cluster grew.
        return HttpResponse(headers={"HX-Refresh": "true"})
    context["shown"] = shown
    return show(
        request,
        "dense" if is_dense else "grid",
        title="Cluster grid",
        here="Cluster grid",
        cluster=place,
        snapshot_row=row,
        live_on=DENSE_LIVE_ON if is_dense else LIVE_ON,
        waiting=context.get("waiting"),
        context=context,
    )


def _tell(request: HttpRequest, place: Cluster, ready: GridPicture) -> dict[str, Any]:
    """What stands around the canvas of a dense grid."""
    facts = ready.facts
    return {
        **facts,
        "meter": draw_meter(*facts["shares"]),
        "callout": call_out(request.user, place, prepared.waiting_in(facts)),
        "empty_cluster": not facts["gpu_nodes"],
        "etag": ready.etag,
        "heat_ramp": _ramp("heat"),
        "link_ramp": _ramp("link"),
    }


@page
def picture_json(request: HttpRequest, cluster: str) -> HttpResponse:
    """The cells of the dense grid, as `reading.compact` writes them; the same for all who may see it."""
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    if row is None:
        raise Http404(f"no snapshot of {cluster} is known yet")
    return prepared_answer(request, prepared.grid_of(place, row))


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
    tiles = tell_tiles(count_totals(views), measures, views, is_waited_for=is_gpu_waited_for(picture))
    return {
        **tiles,
        "meter": draw_meter(*tiles["shares"]),
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
