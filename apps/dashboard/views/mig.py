"""MIG in one cluster: what waits for instances, every node's strips, changes under way and stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.callout import open_plan_with_goal
from apps.dashboard.reading.look import look_at
from apps.dashboard.reading.mig import MigLook, draw_node, look_at_mig, tell_demand
from apps.dashboard.reading.mig_change import STAGES, find_since, list_running
from apps.dashboard.reading.mig_choice import ONLY, UNTOLD_MODEL, find_nodes, fold_whole
from apps.dashboard.reading.mig_legal import read_legal
from apps.dashboard.reading.mig_trouble import list_troubles
from apps.dashboard.reading.problems import tell_problems
from apps.dashboard.views.shell import MISSED, page, show
from apps.planner.plan import Goal
from apps.planner.snapshot import Snapshot as Picture

TOPICS = ("snapshot throttle:2s", "plan throttle:2s", "execution throttle:2s")
LIVE_ON = ", ".join([*(f"sse:{topic}" for topic in TOPICS), MISSED, "every 30s"])
LENGTH = 20
MOST_TROUBLES = 6


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the address asks for; anything unknown falls back to all."""

    model: str
    only: str
    find: str
    page: str

    @classmethod
    def read(cls, request: HttpRequest) -> Wishes:
        only = request.GET.get("only", "")
        return cls(
            model=request.GET.get("model", "")[:60],
            only=only if only in ONLY else "",
            find=request.GET.get("find", "")[:120],
            page=request.GET.get("page", "1")[:8],
        )

    @property
    def query(self) -> str:
        """The address of the same choice, without the page."""
        chosen = {"model": self.model, "only": self.only, "find": self.find}
        return urlencode({name: value for name, value in chosen.items() if value})


@page
def mig(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    row = clusters.latest_snapshot(place)
    wishes = Wishes.read(request)
    context: dict[str, Any] = {
        "wishes": wishes,
        "only": {key: text for key, (text, _) in ONLY.items()},
        "problems": tell_problems(place),
    }
    if row is not None:
        picture = clusters.open_snapshot(row)
        look = look_at_mig(picture)
        context |= _everything(place, look) | _nodes(picture, look, wishes)
        context["plan"] = open_plan_with_goal(request.user, place, Goal.MIG)
    return show(
        request,
        "mig",
        title="MIG",
        here="MIG",
        cluster=place,
        snapshot_row=row,
        live_on=LIVE_ON,
        context=context,
    )


def _everything(place: Cluster, look: MigLook) -> dict[str, Any]:
    """What does not depend on the choice of nodes."""
    since = find_since(place, look.nodes)
    troubles = list_troubles(look.nodes, since, timezone.now())
    asked = [one for one in look.demand if one.wanted]
    return {
        "look": look,
        "totals": look.totals,
        "demand": look.demand,
        "sentence": tell_demand(look),
        "is_missing": any(one.missing for one in asked),
        "waiting": sum(one.pods for one in asked),
        "troubles": troubles[:MOST_TROUBLES],
        "more_troubles": max(0, len(troubles) - MOST_TROUBLES),
        "running": list_running(place, look.nodes, since),
        "stages": STAGES,
        "legal": [(read_legal(name), number) for name, number in look.models.items()],
        "is_used": any(one.is_used for one in look.nodes),
    }


def _nodes(picture: Picture, look: MigLook, wishes: Wishes) -> dict[str, Any]:
    found = find_nodes(look.nodes, model=wishes.model, only=wishes.only, text=wishes.find)
    # What is cut or wanted stands first; a long tail of whole GPUs does not hide it.
    found.sort(key=lambda one: (not one.change.is_broken, not one.is_used, one.node.name))
    listed, folded = (found, []) if wishes.query else fold_whole(found)
    shown = Paginator(listed, LENGTH).get_page(wishes.page)
    marks = look_at(picture).marks
    names = {pod.uid: pod.key for one in shown for pod in picture.pods_on(one.node.name)}
    return {
        "rows": [draw_node(one, marks, names) for one in shown],
        "folded": folded,
        "untold_model": UNTOLD_MODEL,
        "shown": shown,
        "found": len(found),
    }
