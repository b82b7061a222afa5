"""The nodes of a snapshot seen once for everybody who looks at it: views, marks and legend.

Kept as long as the picture stays open, because a page asks again with every event and with every
row that somebody points at. What grows older by itself (ages) is not kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from apps.clusters.queries import answer_about
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.picture import LegendEntry, mark_pods, view_nodes
from apps.planner.snapshot import Snapshot

CLUSTERS_REMEMBERED = 4
_views_before: OrderedDict[str, Mapping[str, NodeView]] = OrderedDict()
"""By cluster: the views made last, of which the next picture's can be made cheaply."""


@dataclass(frozen=True, slots=True)
class Look:
    """marks: by pod uid. report_id: of the measures that the views tell, None where they tell none."""

    report_id: int | None
    views: Sequence[NodeView]
    marks: Mapping[str, Mark]
    legend: Sequence[LegendEntry]

    def view_of(self, name: str) -> NodeView | None:
        return next((view for view in self.views if view.node.name == name), None)


def look_at(snapshot: Snapshot, measures: Measures | None = None) -> Look:
    """measures: of the newest report; None where only seats and marks are drawn."""
    measures = measures or Measures()
    kept: dict[int | None, Look] = answer_about(snapshot, "looks", dict)
    look = kept.get(measures.report_id)
    if look is None:
        views = view_nodes(snapshot, measures, _views_before.get(snapshot.cluster))
        _remember(snapshot.cluster, views)
        marks, legend = mark_pods(snapshot, views)
        look = Look(measures.report_id, tuple(views), marks, tuple(legend))
        for other in list(kept):
            if other is not None:
                kept.pop(other, None)  # of an older report
        kept[measures.report_id] = look
    return look


def _remember(cluster: str, views: Sequence[NodeView]) -> None:
    _views_before[cluster] = {view.node.name: view for view in views}
    with suppress(KeyError):  # another thread was faster
        _views_before.move_to_end(cluster)
        while len(_views_before) > CLUSTERS_REMEMBERED:
            _views_before.popitem(last=False)
