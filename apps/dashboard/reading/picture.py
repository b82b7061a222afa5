"""The whole cluster for the grid page: totals for the tiles, groups of nodes, and what is sorted how."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.dashboard.reading.marks import Mark, mark_workloads, workload_key
from apps.dashboard.reading.measures import Measures
from apps.dashboard.reading.names import ShortNames, shorten_names
from apps.dashboard.reading.nodes import NodeView, gpu_pods, links_note, view_node
from apps.dashboard.reading.occupancy import asked_part
from apps.dashboard.reading.plain import visible
from apps.dashboard.reading.words import amount, plural
from apps.planner.naming import shown_model
from apps.planner.snapshot import Snapshot

GROUPINGS: Mapping[str, tuple[str, Callable[[NodeView], tuple[str, str]]]] = {
    "model": ("Model", lambda view: (shown_model(view.node.model) or "Model not told", view.node.pool)),
    "pool": ("Pool", lambda view: (view.node.pool or "No pool", shown_model(view.node.model))),
    "rack": ("Rack", lambda view: (view.node.rack or "No rack", "")),
    "zone": ("Zone", lambda view: (view.node.zone or "No zone", "")),
}
LONG_GROUP, SHORT_NAME = 40, 10
SORTS: Mapping[str, tuple[str, Callable[[NodeView], tuple]]] = {
    "worth": ("Most worth defragmenting", lambda view: (-(view.worth or 0), view.node.name)),
    "free": ("Most free", lambda view: (-view.free, view.node.name)),
    "name": ("Name", lambda view: (view.node.name,)),
}


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of GPUs. schedulable = physical - cordoned - unready - unhealthy; used_milli of those.

    others: devices of other vendors, which count nowhere else. closed_milli: held on nodes that are not
    schedulable."""

    nodes: int
    models: int
    physical: int
    cordoned: int
    unready: int
    unhealthy: int
    used_milli: int
    free: int
    others: int = 0
    closed_milli: int = 0

    @property
    def schedulable(self) -> int:
        return self.physical - self.cordoned - self.unready - self.unhealthy

    @property
    def used_share(self) -> float:
        return self.used_milli / 1000 / self.schedulable if self.schedulable else 0.0

    @property
    def rest_milli(self) -> int:
        """Schedulable, but neither held nor to be had whole."""
        return max(0, 1000 * (self.schedulable - self.free) - self.used_milli)

    @property
    def less(self) -> str:
        """What the schedulable number leaves out, in words."""
        parts = (
            (self.cordoned, "cordoned"),
            (self.unhealthy, "unhealthy"),
            (self.unready, "not ready or stale"),
        )
        words = ", ".join(f"{count} {word}" for count, word in parts if count)
        return f"less {words}" if words else "all of them"


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    note: str
    free_note: str
    unit: str
    last: int
    views: tuple[NodeView, ...]
    names: ShortNames

    @property
    def length(self) -> str:
        """Classes of grid.css: a long group has fixed columns, so that rows out of sight cost nothing."""
        if len(self.views) <= LONG_GROUP:
            return ""
        return "long" if max(map(len, self.names.short.values())) > SHORT_NAME else "long brief"


@dataclass(frozen=True, slots=True)
class LegendEntry:
    mark: Mark
    milli: int

    @property
    def held(self) -> str:
        return amount(self.milli) if self.milli else "MIG"


def view_nodes(
    snapshot: Snapshot, measures: Measures, before: Mapping[str, NodeView] | None = None
) -> list[NodeView]:
    """Every node with a GPU; nodes without one are no part of the grid.

    before: views of an earlier snapshot by name. Pictures of one cluster share the objects that did not
    change, so most of those views still hold.
    """
    before = before or {}
    views = []
    for node in snapshot.nodes.values():
        if not node.gpus:
            continue
        worth, blocked = measures.worth.get(node.name), measures.blocked.get(node.name)
        old = before.get(node.name)
        if old is None or old.node is not node or not _are_same(old.pods, snapshot.pods_on(node.name)):
            views.append(view_node(snapshot, node, worth, blocked))
        elif (old.worth, old.blocked) == (worth, blocked):
            views.append(old)
        else:
            views.append(replace(old, worth=worth, blocked=blocked))
    return views


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def count_totals(views: Iterable[NodeView]) -> Totals:
    views = list(views)
    usable = [view for view in views if view.is_schedulable]
    return Totals(
        nodes=len(views),
        models=len({view.node.model for view in views}),
        physical=sum(view.seats.size for view in views),
        cordoned=sum(view.seats.size for view in views if view.node.unschedulable),
        unready=sum(v.seats.size for v in views if not v.is_schedulable and not v.node.unschedulable),
        unhealthy=sum(view.ledger.main.unhealthy + view.ledger.main.withheld for view in usable),
        used_milli=sum(view.used_milli for view in usable),
        closed_milli=sum(view.used_milli for view in views if not view.is_schedulable),
        free=sum(view.free for view in usable),
        others=sum(group.physical for view in views for group in view.ledger.others),
    )


def mark_pods(snapshot: Snapshot, views: Iterable[NodeView]) -> tuple[dict[str, Mark], list[LegendEntry]]:
    """Marks by pod uid, and the workloads by GPUs held."""
    key_of: dict[str, str] = {}
    parts: dict[str, Fraction] = defaultdict(Fraction)
    for view in views:
        for pod in gpu_pods(view):
            key = key_of[pod.uid] = workload_key(snapshot, pod)
            parts[key] += asked_part(view.node, pod)
    held = {key: round(part) for key, part in parts.items()}
    marks = mark_workloads(held)
    legend = [
        LegendEntry(marks[key], milli) for key, milli in sorted(held.items(), key=lambda kv: (-kv[1], kv[0]))
    ]
    return {uid: marks[key] for uid, key in key_of.items()}, legend


def group_nodes(views: Iterable[NodeView], grouping: str, sort: str) -> list[Group]:
    """Groups with the most GPUs first. grouping and sort: keys of GROUPINGS and SORTS."""
    found: dict[tuple[str, str], list[NodeView]] = defaultdict(list)
    for view in views:
        found[GROUPINGS[grouping][1](view)].append(view)
    groups = [_group(key, sorted(members, key=SORTS[sort][1])) for key, members in found.items()]
    return sorted(groups, key=lambda group: (-sum(view.seats.size for view in group.views), group.title))


def _group(key: tuple[str, str], members: Sequence[NodeView]) -> Group:
    title, second = key
    names = shorten_names([view.node.name for view in members])
    unit = "NPU" if members[0].node.gpu_resource.startswith("huawei.com/") else "GPU"
    usable = [view for view in members if view.is_schedulable]
    links = sorted({links_note(view.node) for view in members})
    free = sum(view.free for view in usable)
    sizes = {view.seats.size for view in members}
    note = [
        *([f"pool {second}" if second == members[0].node.pool else second] if second else []),
        plural(len(members), "node"),
        plural(sum(view.seats.size for view in members), unit),
        links[0] if len(links) == 1 else "links differ",
        *([names.note] if names.note else []),
    ]
    return Group(
        title=title,
        note=" · ".join(note),
        free_note=f"{free:,} free, {sum(view.is_whole for view in usable)} whole",
        unit=unit,
        last=max(sizes) - 1,
        views=tuple(members),
        names=names,
    )


def find_nodes(views: Iterable[NodeView], marks: Mapping[str, Mark], text: str) -> list[NodeView]:
    """Nodes whose name, model, pool, rack, state, or pods and workloads hold the text (case is ignored)."""
    wanted = text.strip().lower()
    return [view for view in views if wanted in _haystack(view, marks)] if wanted else list(views)


def _haystack(view: NodeView, marks: Mapping[str, Mark]) -> str:
    node = view.node
    words = [node.name, node.model, node.pool, node.rack, node.zone, view.state.word]
    for pod in view.pods:
        if pod.uid in marks:
            words += [pod.key, marks[pod.uid].name, marks[pod.uid].code]
    return visible(" ".join(words)).lower()
