"""Who held what and when, per node: all that past values follow from. Filled by the nodes' watch."""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apps.simulator.controllers.informers import Change, Store
from apps.simulator.controllers.pace import from_text
from apps.simulator.metrics.views import (
    Labels,
    Series,
    exports,
    has_exporter,
    layout_of,
    look_of,
    scraped_labels,
    series_of,
)

Json = dict[str, Any]
log = logging.getLogger(__name__)

SCRAPE_SECONDS = 15.0
PAST_SECONDS = 6 * 3600.0  # before the start: as if the first look had been true so long
SILENT_SECONDS = 60.0  # after a change of a MIG layout the exporter has no samples for so long
KEPT_VIEWS = 500
UP = "up"
Shown = tuple[tuple[Labels, Series], ...]
NEW_SECONDS = 60.0  # a node made later than so long before the start has no past


@dataclass(frozen=True, slots=True)
class View:
    """changed: when the node came to look so. since: the first moment at which there are samples."""

    changed: float
    since: float
    series: Shown


@dataclass(slots=True)
class NodePast:
    look: tuple[str, ...] = ()
    layout: str = ""
    views: tuple[View, ...] = ()  # replaced whole: queries read them in a thread of their own

    def at(self, moment: float) -> Shown:
        views = self.views
        position = bisect_right(views, moment, key=lambda view: view.changed) - 1
        return views[position].series if position >= 0 and moment >= views[position].since else ()

    def segments(self, moments: list[float]) -> Iterator[tuple[Shown, list[float]]]:
        """The moments in order, cut where the series change."""
        part: list[float] = []
        shown: Shown = ()
        for moment in moments:
            now = self.at(moment)
            if now is not shown and part:
                yield shown, part
                part = []
            shown = now
            part.append(moment)
        if part:
            yield shown, part

    def between(self, after: float, until: float) -> Iterator[Shown]:
        views = self.views
        for position, view in enumerate(views):
            ends = views[position + 1].changed if position + 1 < len(views) else until
            if view.since <= until and ends >= after and ends > view.since:
                yield view.series


class History:
    """pace: divides the silence after a layout change, as all simulated durations."""

    def __init__(self, nodes: Store, *, time_scale: float = 1.0) -> None:
        self._started = time.time()
        self.began = self._started - PAST_SECONDS
        self.nodes: dict[str, NodePast] = {}
        self._silent = SILENT_SECONDS / time_scale
        nodes.subscribe(self._on_node)

    def _on_node(self, change: Change) -> None:
        node, moment = change.object, time.time()
        name = node["metadata"]["name"]
        past = self.nodes.setdefault(name, NodePast())
        gone = change.kind == "DELETED"
        look = () if gone else look_of(node)
        if past.views and look == past.look:
            return
        layout, series = ("", []) if gone else _read(node)
        recut = bool(past.views) and layout != past.layout
        began = moment if past.views or not self._is_old(node) else self.began
        shown = [(named(name, each), each) for each in series]
        shown += [] if gone else _up(name, node)
        view = View(began, began + (self._silent if recut else 0), tuple(shown))
        past.views = (*past.views, view)[-KEPT_VIEWS:]
        past.look, past.layout = look, layout

    def _is_old(self, node: Json) -> bool:
        made = from_text(node["metadata"].get("creationTimestamp"))
        return made is not None and made.timestamp() < self._started - NEW_SECONDS

    def exporter_series(self, node: str) -> Shown | None:
        past = self.nodes.get(node)
        return None if past is None else past.at(time.time())


def _read(node: Json) -> tuple[str, list[Series]]:
    try:
        return layout_of(node), series_of(node)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("node %s has annotations of no use for metrics: %r", node["metadata"]["name"], error)
        return "", []


def _up(name: str, node: Json) -> list[tuple[Labels, Series]]:
    """Prometheus' own word on whether it could scrape."""
    try:
        if not has_exporter(node):
            return []
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    answers = float(exports(node))
    series = Series(UP, {}, lambda moment: answers)
    return [(named(name, series), series)]


def named(node: str, series: Series) -> Labels:
    return {"__name__": series.name, **scraped_labels(node, series.labels)}


def last_scrape(moment: float) -> float:
    return moment - moment % SCRAPE_SECONDS
