"""The whole grid as one small JSON for the browser's canvas, from the same views that the rows are drawn of.

Columns rather than objects, numbers rather than words: 1,213 nodes take some 30 kB once compressed.
What a reader of it must know is told in docs/grid.md. Nothing here is drawn and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apps.dashboard.reading.look import Look
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.nodes import NodeView, gpu_pods, group_sizes, links_note
from apps.dashboard.reading.others import Seen, read_others
from apps.dashboard.reading.panel import tell_gain
from apps.dashboard.reading.picture import LegendEntry
from apps.dashboard.reading.plain import visible
from apps.planner.movability import MovabilityRules
from apps.planner.naming import shown_model
from apps.planner.snapshot import Snapshot

FORMAT = 1
STATES = ("ready", "cordoned", "stale", "not ready", "drift")
MOVABLE, JOINED = 1, 2
UNKNOWN, IDLE, UNSURE = -1, -2, -3
OTHERS = {Seen.UNNAMED: UNKNOWN, Seen.FREE: IDLE, Seen.UNSURE: UNSURE}
Json = dict[str, Any]


class Words:
    """A table of texts, each once; a text is told by its number in it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def table(self) -> list[str]:
        return [visible(text) for text in self._numbers]


def encode_grid(snapshot: Snapshot, look: Look, measures: Measures) -> Json:
    pods = _Pods(snapshot, look)
    tables = {
        name: Words() for name in ("model", "pool", "rack", "zone", "link", "links", "unit", "text", "shape")
    }
    views = sorted(look.views, key=lambda view: view.node.name)
    columns = _columns(views, tables) | _seat_columns(views, pods)
    columns["state"] = [STATES.index(view.state.word) for view in views]
    columns["gain"] = [
        -1 if view.state.word == "stale" else tables["text"].number(tell_gain(view, look.marks, pods.rules))
        for view in views
    ]
    sparse = {
        "stale_since": {at: view.node.stale_since for at, view in enumerate(views) if view.node.stale_since},
        "sizes": dict(_uneven_groups(views)),
        "others": {at: _flat(_others(view, pods)) for at, view in enumerate(views) if view.ledger.others},
        "raw": {at: v.node.name for at, v in enumerate(views) if visible(v.node.name) != v.node.name},
    }
    return {
        "format": FORMAT,
        "measured_at": measures.measured_at.isoformat() if measures.measured_at else None,
        "states": STATES,
        "workloads": [_workload(entry) for entry in look.legend],
        "tables": {name: table.table() for name, table in tables.items()},
        "columns": columns,
        "sparse": sparse,
    }


def _workload(entry: LegendEntry) -> list[Any]:
    return [entry.mark.code, entry.mark.hue, visible(entry.mark.key), entry.milli]


def _columns(views: Sequence[NodeView], tables: Mapping[str, Words]) -> Json:
    """One list per fact, all in the order of the nodes."""

    def numbers(table: str, texts: Iterable[str]) -> list[int]:
        return [tables[table].number(text) for text in texts]

    return {
        "name": [visible(view.node.name) for view in views],
        "model": numbers("model", (shown_model(view.node.model) for view in views)),
        "pool": numbers("pool", (view.node.pool for view in views)),
        "rack": numbers("rack", (view.node.rack for view in views)),
        "zone": numbers("zone", (view.node.zone for view in views)),
        "links": numbers("links", (links_note(view.node) for view in views)),
        "unit": numbers("unit", (_unit(view) for view in views)),
        "link": numbers("link", (view.link_word for view in views)),
        "shape": numbers("shape", (_shape(view) for view in views)),
        "free": [view.free for view in views],
        "group": [view.group for view in views],
        "worth": [round(view.worth or 0, 2) for view in views],
        "moves": [len(gpu_pods(view)) if view.worth else 0 for view in views],
        "blocked": [-1 if view.blocked is None else round(view.blocked * 100) for view in views],
        "told": [int(view.seats.is_told) for view in views],
        "withheld": [view.seats.withheld for view in views],
    }


def _unit(view: NodeView) -> str:
    return "NPU" if view.node.gpu_resource.startswith("huawei.com/") else "GPU"


def _shape(view: NodeView) -> str:
    """ "8:4,8:2": the number of GPUs, the positions before which another NUMA node or kind of device begins,
    and how many devices of other kinds stand beside them (left out where there are none)."""
    kinds: list[object] = [gpu.numa for gpu in view.node.gpus]
    size = len(kinds)
    kinds += [group.resource for group in view.ledger.others for _ in group.devices]
    gaps = [str(at) for at in range(1, len(kinds)) if kinds[at] != kinds[at - 1]]
    return f"{size}:{','.join(gaps)}" + (f":{len(kinds) - size}" if len(kinds) > size else "")


class _Pods:
    """What a cell tells of its pod: the number of its workload (-1: unknown), and whether it may move."""

    def __init__(self, snapshot: Snapshot, look: Look) -> None:
        self.rules = MovabilityRules(snapshot)
        self._pods = snapshot.pods
        self.marks: Mapping[str, Mark] = look.marks
        self._places = {entry.mark.key: at for at, entry in enumerate(look.legend)}

    def workload(self, uid: str) -> int:
        mark = self.marks.get(uid)
        return UNKNOWN if mark is None else self._places[mark.key]

    def flags(self, uid: str) -> int:
        pod = self._pods.get(uid)
        return MOVABLE if pod is not None and self.rules.judge(pod).movable else 0


def _seat_columns(views: Sequence[NodeView], pods: _Pods) -> Json:
    """Flat lists per node. bars: workload, first and last position, flags. parts: position, 1 if cut by
    MIG, workload (-2: idle), start and size in thousandths. loose: workload, milli-GPU, flags."""
    return {
        "bad": [list(view.seats.bad) for view in views],
        "bars": [_flat(_bars(view, pods)) for view in views],
        "parts": [_flat(_parts(view, pods)) for view in views],
        "loose": [
            _flat((pods.workload(uid), milli, pods.flags(uid)) for uid, milli in view.seats.unplaced)
            for view in views
        ],
    }


def _bars(view: NodeView, pods: _Pods) -> Iterable[tuple[int, ...]]:
    for bar in view.seats.bars:
        flags = pods.flags(bar.pod_uid) | (JOINED if bar.joined else 0)
        yield pods.workload(bar.pod_uid), bar.positions[0], bar.positions[-1], flags


def _parts(view: NodeView, pods: _Pods) -> Iterable[tuple[int, ...]]:
    for place, parts in view.seats.parts.items():
        is_cut = int(place in view.seats.cut_by_mig)
        for part in parts:
            workload = pods.workload(part.pod_uid) if part.pod_uid else IDLE
            yield place, is_cut, workload, round(part.start * 1000), round(part.size * 1000)


def _others(view: NodeView, pods: _Pods) -> Iterable[tuple[int, ...]]:
    """Workload (IDLE, UNSURE or UNKNOWN without one), 1 if unhealthy."""
    for cell in read_others(view.ledger, pods.marks):
        yield pods.workload(cell.pod_uid) if cell.pod_uid else OTHERS[cell.seen], int(not cell.healthy)


def _flat(tuples: Iterable[tuple[int, ...]]) -> list[int]:
    return [number for one in tuples for number in one]


def _uneven_groups(views: Sequence[NodeView]) -> Iterable[tuple[int, list[int]]]:
    """Sizes of the link groups by free position, only where they are not all the same."""
    for at, view in enumerate(views):
        if view.seats.free and view.group != len(view.seats.free):
            sizes = group_sizes(view)
            yield at, [sizes.get(place, 0) for place in view.seats.free]
