"""One node's GPUs in a row: a pod is one bar, free is empty, and what is not known is said so.

Used by the cluster grid, the node page and the plan's before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.occupancy import Bar, Occupancy, Part
from apps.dashboard.reading.others import Seen, read_others
from apps.dashboard.reading.plain import shown
from apps.planner.inventory import Node
from apps.planner.ledger_rows import NodeLedger

CELL = 19
PITCH = 21
HEIGHT = 18
NUMA_GAP = 4
TOP = 0.5


@dataclass(frozen=True, slots=True)
class Spots:
    """Where each cell of a row begins, and how wide the row is."""

    xs: tuple[float, ...]
    width: float


@lru_cache(maxsize=256)
def spots(numas: tuple[int | str | None, ...]) -> Spots:
    """numas: the NUMA node of every GPU in driver order (a word for devices of another kind); a gap stands
    where it changes."""
    xs, x, before = [], 0.5, None
    for place, numa in enumerate(numas):
        if place and numa != before:
            x += NUMA_GAP
        xs.append(x)
        x += PITCH
        before = numa
    return Spots(tuple(xs), (xs[-1] + CELL + 0.5) if xs else 0.0)


@lru_cache(maxsize=4096)
def _box(kind: str, x: float, width: float = CELL, y: float = TOP, height: float = HEIGHT) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2"/>'


@lru_cache(maxsize=4096)
def _word(kind: str, x: float, text: str, y: float = TOP + HEIGHT / 2 + 3.5) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{shown(text)}</text>'


def pin_size(number: int) -> str:
    """One class more for numbers that are too wide for their circle otherwise."""
    return " three" if number > 99 else ""


def node_spots(node: Node) -> Spots:
    """Its GPUs, then its devices of other vendors, each kind set apart."""
    kinds = tuple(f"{group.resource}" for group in node.others for _ in group.gpus)
    return spots((*(gpu.numa for gpu in node.gpus), *kinds))


OTHERS = {Seen.UNNAMED: "quietcell", Seen.UNSURE: "unsure", Seen.FREE: "free"}


def other_cells(ledger: NodeLedger, where: Spots, marks: Mapping[str, Mark]) -> str:
    """Devices of other vendors: round, since nothing is planned with them."""
    cells = read_others(ledger, marks)
    out = []
    for x, cell in zip(where.xs[len(ledger.devices) :], cells, strict=True):
        mark = marks.get(cell.pod_uid)
        kind = f"f{mark.hue}" if mark else OTHERS[cell.seen]
        key = f' data-w="{mark.code}"' if mark else ""
        out.append(
            f'<rect class="cell {kind}"{key} x="{x:g}" y="{TOP:g}" width="{CELL}" height="{HEIGHT}" rx="9"/>'
        )
        if not cell.healthy:
            out.append(f'<rect class="bad-h" x="{x:g}" y="{TOP:g}" width="{CELL}" height="{HEIGHT}" rx="9"/>')
    return "".join(out)


def workload_cells(
    seats: Occupancy,
    where: Spots,
    marks: Mapping[str, Mark],
    pins: Mapping[str, int] | None = None,
) -> str:
    """marks: by pod uid. pins: move number by pod uid, drawn instead of the code."""
    pins = pins or {}
    out = [_box("cell free", where.xs[place]) for place in seats.free]
    out += [_box("cell unsure", where.xs[place]) for place in seats.unsure]
    for place, parts in seats.parts.items():
        draw = _mig_cell if place in seats.cut_by_mig else _shared_cell
        out.append(_box("cell free" if seats.is_told else "cell unsure", where.xs[place]))
        out.append(draw(where.xs[place], parts, marks))
    out += [_bar(bar, where, marks.get(bar.pod_uid), pins.get(bar.pod_uid)) for bar in seats.bars]
    out += _floating(seats, where, marks, pins)
    out += [_unhealthy(where.xs[place], place, seats) for place in seats.bad]
    return "".join(out)


def shade_cells(seats: Occupancy, where: Spots, kind: str, words: Mapping[int, tuple[int, str]]) -> str:
    """Free GPUs shaded on a scale, the rest quiet. kind: "q" or "l"; words: (step, text) by position."""
    out = []
    known = {*seats.free, *seats.bad}
    for place in range(seats.size):
        if place in words and place in seats.free:
            step, text = words[place]
            out.append(_box(f"cell {kind}{step} qs", where.xs[place]))
            out.append(_word(f"ct {kind}t{step}", where.xs[place] + CELL / 2, text))
        elif place in seats.unsure:
            out.append(_box("cell unsure", where.xs[place]))
        elif place not in known:
            out.append(_box("cell quietcell", where.xs[place]))
        elif place in seats.free:
            out.append(_box("cell free", where.xs[place]))
    out += [_unhealthy(where.xs[place], place, seats) for place in seats.bad]
    return "".join(out)


def cordon_outline(where: Spots) -> str:
    return f'<rect class="cord" x="-2" y="-1.5" width="{where.width + 3.5:g}" height="22" rx="3"/>'


def freed_outline(where: Spots) -> str:
    return f'<rect class="freed" x="-2.5" y="-2" width="{where.width + 4.5:g}" height="23" rx="4"/>'


def _unhealthy(x: float, place: int, seats: Occupancy) -> str:
    held = any(place in bar.positions for bar in seats.bars) or place in seats.parts
    ground = "" if held else _box("cell bad-bg", x)
    return ground + _box("bad-h", x)


def _bar(bar: Bar, where: Spots, mark: Mark | None, pin: int | None) -> str:
    hue = mark.hue if mark else 0
    x = where.xs[bar.positions[0]]
    end = where.xs[bar.positions[-1]] + CELL
    ticks = "".join(_tick(hue, (where.xs[a] + CELL + where.xs[b]) / 2) for a, b in pairwise(bar.positions))
    bridge = ""
    if bar.joined:
        bridge = f'<rect class="f{hue} flat" x="{end - 1:g}" y="6.5" width="{NUMA_GAP + 4}" height="6"/>'
    text = _bar_word(mark, hue, len(bar.positions), (x + end) / 2, pin)
    key = f' data-w="{mark.code}"' if mark else ""
    return f'<g class="u"{key}>{bridge}{_box(f"cell f{hue}", x, end - x)}{ticks}{text}</g>'


def _bar_word(mark: Mark | None, hue: int, gpus: int, middle: float, pin: int | None) -> str:
    if pin is not None:
        return f'<circle class="pin" cx="{middle:g}" cy="9.5" r="7.5"/>' + _word(
            f"pint{pin_size(pin)}", middle, str(pin)
        )
    if mark is None:
        return _word(f"ct k{hue}", middle, "?")
    if gpus >= 3 and len(mark.name) <= gpus * 4:
        return _word(f"ct long k{hue}", middle, mark.name)
    return _word(f"ct k{hue}", middle, mark.code)


@lru_cache(maxsize=2048)
def _tick(hue: int, x: float) -> str:
    low = TOP + HEIGHT - 3.5
    return f'<path class="tick k{hue}" d="M{x:g} {low:g}v2.5M{x:g} {TOP + 1:g}v2.5"/>'


def _floating(
    seats: Occupancy, where: Spots, marks: Mapping[str, Mark], pins: Mapping[str, int]
) -> Sequence[str]:
    """Pods whose devices nobody tells float above the cells: their number is known, their seat is not."""
    out, used = [], 0
    for uid, milli in seats.unplaced:
        start, used = used, used + milli
        if not seats.unsure or start >= len(seats.unsure) * 1000:
            break
        mark = marks.get(uid)
        hue, key = (mark.hue, f' data-w="{mark.code}"') if mark else (0, "")
        x = _edge(seats.unsure, where, start) + 2
        width = max(1.5, _edge(seats.unsure, where, used, ends=True) - 2 - x)
        text = _bar_word(mark, hue, milli // 1000, x + width / 2, pins.get(uid)) if width > 10 else ""
        out.append(f'<g class="u"{key}>{_box(f"cell loose f{hue}", x, width, 3.5, 12)}{text}</g>')
    return out


def _edge(places: Sequence[int], where: Spots, milli: int, ends: bool = False) -> float:
    """Where a run that begins (or ends) so many milli-GPU along the open cells stands."""
    place, rest = divmod(milli, 1000)
    if ends and not rest:
        return where.xs[places[min(place, len(places)) - 1]] + CELL
    return where.xs[places[min(place, len(places) - 1)]] + rest * CELL / 1000


def _mig_cell(x: float, parts: Sequence[Part], marks: Mapping[str, Mark]) -> str:
    out = []
    for part in parts:
        left = x + 1 + part.start * 17
        if part.pod_uid:
            out.append(
                _piece(marks.get(part.pod_uid), left + 0.3, TOP + 1.5, part.size * 17 - 0.9, HEIGHT - 3)
            )
        if part.start:
            out.append(f'<path class="cut" d="M{left - 0.1:.2f} {TOP}v{HEIGHT}"/>')
    return "".join(out)


def _shared_cell(x: float, parts: Sequence[Part], marks: Mapping[str, Mark]) -> str:
    out = []
    for part in parts:
        if part.pod_uid:
            top = TOP + 1 + part.start * (HEIGHT - 2)
            out.append(_piece(marks.get(part.pod_uid), x + 1, top, CELL - 2, part.size * (HEIGHT - 2) - 0.6))
    return "".join(out)


def _piece(mark: Mark | None, x: float, y: float, width: float, height: float) -> str:
    hue, key = (mark.hue, f' data-w="{mark.code}"') if mark else (0, "")
    return (
        f'<rect class="f{hue} flat u"{key} x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.8):.2f}"'
        f' height="{max(height, 0.8):.2f}"/>'
    )
