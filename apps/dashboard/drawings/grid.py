"""The cluster grid: groups of node rows, one row of cells per node.

A page can hold more than a thousand rows, so a row is one f-string and a node's cells are
drawn only in the mode that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.drawings.cells import cordon_outline, node_spots, other_cells, shade_cells, workload_cells
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.nodes import NodeView, group_sizes
from apps.dashboard.reading.picture import Group
from apps.dashboard.reading.plain import shown

FRAGMENTATION_STEPS = (0.10, 0.25, 0.41, 0.60, 0.85)


@dataclass(frozen=True, slots=True)
class Brush:
    """How all rows of one page are drawn. mode: work, heat or link. marks: by pod uid.
    address: of a node's page, with NODE in the place of its name."""

    mode: str
    marks: Mapping[str, Mark]
    address: str
    selected: str = ""


def draw_rows(group: Group, brush: Brush) -> SafeString:
    short = group.names.short
    return mark_safe(
        "".join(_row(view, brush, order, short[view.node.name]) for order, view in enumerate(group.views))
    )


def columns_class(groups: Sequence[Group]) -> str:
    """How wide a column of rows must be: a class of grid.css."""
    need = max((_width_of(group) for group in groups), default=0)
    return next((f"w{width}" for width in (290, 340, 400) if need <= width), "w440")


def _width_of(group: Group) -> float:
    names = max(map(len, group.names.short.values()))
    cells = max(node_spots(view.node).width for view in group.views)
    return max(names * 6.7, 52) + cells + 62


def draw_cells(view: NodeView, brush: Brush) -> str:
    """The inside of a node's SVG in the brush's mode, with its cordon."""
    where = node_spots(view.node)
    if brush.mode == "heat":
        cells = shade_cells(view.seats, where, "q", _heat_words(view))
    elif brush.mode == "link":
        cells = shade_cells(view.seats, where, "l", _link_words(view))
    else:
        cells = workload_cells(view.seats, where, brush.marks)
    if view.ledger.others:
        cells += other_cells(view.ledger, where, brush.marks if brush.mode == "work" else {})
    return cells + (cordon_outline(where) if view.node.unschedulable else "")


def draw_strip(view: NodeView, brush: Brush) -> SafeString:
    """The same cells as a picture of its own, with its content in words."""
    width = node_spots(view.node).width
    return mark_safe(
        f'<svg class="cells" viewBox="0 0 {width:g} 19" width="{width:g}" height="19" role="img"'
        f' aria-label="{shown(describe(view))}">{draw_cells(view, brush)}</svg>'
    )


def describe(view: NodeView) -> str:
    """The row in words, for those who do not see it."""
    words = [f"{view.free} of {view.seats.size} free"]
    if view.link is None:
        words.append("links not told")
    elif view.free and not view.seats.unplaced:
        words.append(f"largest link group {view.group}, {view.link_word}")
    if view.seats.unplaced:
        words.append("which pod holds which GPU is not told")
    if view.seats.withheld:
        words.append(f"{view.seats.withheld} cut by MIG, not told which")
    if view.seats.lost:
        words.append(f"{view.seats.lost} not offered by the kubelet, not told which")
    words += [f"{len(one.devices)} of {one.resource} beside them" for one in view.ledger.others]
    if view.seats.bad:
        words.append(f"{len(view.seats.bad)} unhealthy")
    if view.state.word != "ready":
        words.append(view.state.text)
    if view.worth:
        words.append(f"each pod moved makes {view.worth:.1f} of its free GPUs whole")
    return ", ".join(words)


def fragmentation_step(share: float) -> int:
    return sum(share >= edge for edge in FRAGMENTATION_STEPS)


def group_step(size: int) -> int:
    return 0 if size >= 8 else 1 if size >= 4 else 2 if size >= 3 else 3 if size >= 2 else 5


def _heat_words(view: NodeView) -> dict[int, tuple[int, str]]:
    if view.blocked is None or not view.is_schedulable:
        return {}
    word = (fragmentation_step(view.blocked), f"{view.blocked * 100:.0f}")
    return dict.fromkeys(view.seats.free, word)


def _link_words(view: NodeView) -> dict[int, tuple[int, str]]:
    if not view.is_schedulable:
        return {}
    return {place: (group_step(size), str(size)) for place, size in group_sizes(view).items()}


def _row(view: NodeView, brush: Brush, order: int, short: str) -> str:
    node = view.node
    name = shown(node.name)
    width = node_spots(node).width
    dim = " is-stale" if view.state.word in ("stale", "not ready") else ""
    chosen = " sel" if node.name == brush.selected else ""
    look = " look" if view.state.word == "drift" else ""
    href = shown(brush.address.replace("NODE", quote(node.name, safe="")))
    return (
        f'<li><a class="nrow{dim}{chosen}" id="n-{name}" href="{href}" data-node="{name}"'
        f'{"" if order == 0 else " tabindex=-1"}><span class="name{look}" title="{name}" aria-hidden="true">'
        f"{escape(short)}</span>"
        f'<svg class="cells" viewBox="0 0 {width:g} 19" width="{width:g}" height="19" aria-hidden="true">'
        f"{draw_cells(view, brush)}</svg>{_numbers(view)}"
        f'<span class="vh">{name}: {shown(describe(view))}</span></a></li>'
    )


def _numbers(view: NodeView) -> str:
    if view.state.word not in ("ready", "drift"):
        return f'<span class="flag" aria-hidden="true">{shown(view.state.text)}</span>'
    worth = (
        f'<span aria-hidden="true" class="worth strong">{view.worth:.1f}</span>'
        if view.worth
        else ('<span aria-hidden="true" class="worth quiet">–</span>')
    )
    return f'<span aria-hidden="true">{view.free or "·"}</span>{worth}'
