"""A plan's before and after: the nodes that change, twice, with numbered arrows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.drawings.cells import (
    Spots,
    cordon_outline,
    freed_outline,
    pin_size,
    spots,
    workload_cells,
)
from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.moving import Stage
from apps.dashboard.reading.plain import shorten, shown
from apps.planner.plan import Move

ROW, HEAD, BREAK = 30, 30, 14
FLOW = 256
LONGEST_NOTE = 34


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the two columns stand. left, right: x of the cells before and after; width: of all."""

    left: float
    cells: float
    right: float
    width: float
    rows: Mapping[str, float]


def draw_moves(
    stages: Sequence[Stage], moves: Sequence[Move], marks: Mapping[str, Mark], after: str
) -> SafeString:
    """after: what stands over the right column."""
    frame = _frame(stages)
    pins = {move.pod_uid: move.order for move in moves}
    parts = [
        f'<text class="axis" x="{frame.left:g}" y="14">Before</text>',
        f'<text class="axis" x="{frame.right:g}" y="14">{shown(after)}</text>',
        *_arrows([move for move in moves if move.source in frame.rows and move.target in frame.rows], frame),
    ]
    for stage in stages:
        parts.append(_stage(stage, frame, marks, pins))
    height = max(frame.rows.values(), default=0) + ROW + 8
    label = f"{len(stages)} nodes before and after; the moves table lists the same moves by number"
    return mark_safe(
        f'<svg class="chart planmap" viewBox="0 0 {frame.width:g} {height:g}" role="img"'
        f' aria-label="{label}">{"".join(parts)}</svg>'
    )


def draw_strip_before(stage: Stage, marks: Mapping[str, Mark], pins: Mapping[str, int]) -> SafeString:
    return _strip(_place(stage), workload_cells(stage.view.seats, _place(stage), marks, pins))


def draw_strip_after(stage: Stage, marks: Mapping[str, Mark], pins: Mapping[str, int]) -> SafeString:
    return _strip(_place(stage), workload_cells(stage.after, _place(stage), marks, pins))


def _strip(where: Spots, cells: str) -> SafeString:
    return mark_safe(
        f'<svg class="cells" viewBox="0 0 {where.width:g} 19" width="{where.width:g}" height="19"'
        ' aria-hidden="true">'
        f"{cells}</svg>"
    )


def _place(stage: Stage) -> Spots:
    return spots(tuple(gpu.numa for gpu in stage.view.node.gpus))


def _frame(stages: Sequence[Stage]) -> Frame:
    left = max((len(shorten(stage.view.node.name)) for stage in stages), default=8) * 6.8 + 14
    cells = max((_place(stage).width for stage in stages), default=172)
    right = left + cells + FLOW
    rows: dict[str, float] = {}
    y, was_freed = float(HEAD), True
    for stage in stages:
        if was_freed and not stage.is_freed and rows:
            y += BREAK
        rows[stage.view.node.name] = y
        y += ROW
        was_freed = stage.is_freed
    return Frame(left, cells, right, right + cells + 12 + _note_room(stages), rows)


def _note_room(stages: Sequence[Stage]) -> float:
    return max((len(shorten(stage.note, LONGEST_NOTE)) for stage in stages), default=0) * 6.4 + 10


def _stage(stage: Stage, frame: Frame, marks: Mapping[str, Mark], pins: Mapping[str, int]) -> str:
    where, y = _place(stage), frame.rows[stage.view.node.name]
    outline = cordon_outline(where) if stage.view.node.unschedulable else ""
    before = workload_cells(stage.view.seats, where, marks, pins) + outline
    ground = freed_outline(where) if stage.is_freed else ""
    after = ground + workload_cells(stage.after, where, marks, pins)
    note = "rownote" if stage.is_freed else "rownote q"
    return (
        f'<text class="rowname" x="0" y="{y + 13.5:g}">{escape(shorten(stage.view.node.name))}</text>'
        f'<g transform="translate({frame.left:g} {y:g})">{before}</g>'
        f'<g transform="translate({frame.right:g} {y:g})">{after}</g>'
        f'<text class="{note}" x="{frame.right + where.width + 12:g}" y="{y + 13.5:g}">'
        f"{escape(shorten(stage.note, LONGEST_NOTE))}</text>"
    )


def _arrows(moves: Sequence[Move], frame: Frame) -> list[str]:
    outs: dict[str, list[int]] = defaultdict(list)
    ins: dict[str, list[int]] = defaultdict(list)
    for move in moves:
        outs[move.source].append(move.order)
        ins[move.target].append(move.order)
    lines, pins = [], []
    for move in moves:
        ya = frame.rows[move.source] + 9.5 + _fan(outs[move.source], move.order, 5)
        yb = frame.rows[move.target] + 9.5 + _fan(ins[move.target], move.order, 7)
        x0, x1 = frame.left + frame.cells + 6, frame.right - 12
        pull = FLOW * 0.4
        lines.append(
            f'<path class="flow" d="M{x0:g} {ya:.1f}C{x0 + pull:g} {ya:.1f}'
            f' {x1 - pull:g} {yb:.1f} {x1 - 4:g} {yb:.1f}"/>'
            f'<path class="flowhead" d="M{x1 + 3:g} {yb:.1f}l-8 -3.6v7.2Z"/>'
        )
        t = _ride(ins[move.target], move.order)
        x, y = _on_curve(t, (x0, ya), (x0 + pull, ya), (x1 - pull, yb), (x1 - 4, yb))
        pins.append(
            f'<circle class="pinline" cx="{x:.1f}" cy="{y:.1f}" r="7.5"/>'
            f'<text class="pinlinet{pin_size(move.order)}" x="{x:.1f}" y="{y + 3.5:.1f}">{move.order}</text>'
        )
    return lines + pins


def _fan(orders: Sequence[int], order: int, step: float) -> float:
    """Arrows that share an end stand side by side, within the row."""
    step = min(step, 18 / max(len(orders) - 1, 1))
    return (orders.index(order) - (len(orders) - 1) / 2) * step


def _ride(orders: Sequence[int], order: int) -> float:
    """Where on its arrow the number rides, so that numbers into one node do not cover each other."""
    return 0.8 if len(orders) == 1 else 0.9 - 0.14 * (len(orders) - 1 - orders.index(order)) % 0.6


def _on_curve(t: float, *points: tuple[float, float]) -> tuple[float, float]:
    weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t * t, t**3)
    return (
        sum(weight * x for weight, (x, _) in zip(weights, points, strict=True)),
        sum(weight * y for weight, (_, y) in zip(weights, points, strict=True)),
    )
