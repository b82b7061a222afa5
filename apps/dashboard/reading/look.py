"""The nodes of a snapshot seen once for everybody who looks at it: views, marks and legend.

Kept for the few pictures looked at last, because a page asks again with every event and with
every row that somebody points at. What grows older by itself (ages) is not kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.nodes import NodeView
from apps.dashboard.reading.picture import LegendEntry, mark_pods, view_nodes
from apps.planner.snapshot import Snapshot

REMEMBERED = 8
_lock = threading.Lock()
_looks: OrderedDict[tuple[int, int | None], Look] = OrderedDict()


@dataclass(frozen=True, slots=True)
class Look:
    """marks: by pod uid. The snapshot is kept with its look, so its id stays its own."""

    snapshot: Snapshot
    views: Sequence[NodeView]
    marks: Mapping[str, Mark]
    legend: Sequence[LegendEntry]

    def view_of(self, name: str) -> NodeView | None:
        return next((view for view in self.views if view.node.name == name), None)


def look_at(snapshot: Snapshot, measures: Measures | None = None) -> Look:
    """measures: of the newest report; None where only seats and marks are drawn."""
    measures = measures or Measures()
    key = (id(snapshot), measures.report_id)
    with _lock:
        known = _looks.get(key)
        if known is not None and known.snapshot is snapshot:
            _looks.move_to_end(key)
            return known
    views = view_nodes(snapshot, measures)
    marks, legend = mark_pods(snapshot, views)
    look = Look(snapshot, tuple(views), marks, tuple(legend))
    with _lock:
        _looks[key] = look
        while len(_looks) > REMEMBERED:
            _looks.popitem(last=False)
    return look
