"""A GPU as MIG has cut it, by memory slice: where each instance starts, how long it is, who uses it.

Held, free, not known and uncut differ by their words and by their ground: the workload's hue and
code, empty, dots with a question mark, a broken line.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.plain import shown
from apps.planner.mig.layouts import Layout
from apps.planner.mig.models import MigModel
from apps.planner.mig.use import GpuUse, InstanceUse, Use

SLICE, HEIGHT, AXIS = 33, 32, 12
SMALL, SMALL_HEIGHT = 20, 16
LETTER = 6.2
WIDE = 2
"""From so many memory slices on, the whole profile name fits."""


def draw_gpu(gpu: GpuUse, marks: Mapping[str, Mark], label: str) -> SafeString:
    """label: what a screen reader says instead of the picture."""
    parts = [_instance(one, at, marks) for one, at in _seats(gpu)]
    parts += [_uncut(start, length) for start, length in gpu.uncut]
    if not gpu.is_cut:
        parts.append(_whole(gpu, marks))
    if not gpu.healthy:
        parts.append(f'<rect class="bad-h" x="1" y="1" width="{gpu.axis * SLICE - 3}" height="{HEIGHT}"/>')
    height = HEIGHT + 3
    if gpu.is_cut and all(one.start is not None for one in gpu.instances):
        middle = SLICE / 2 - 1
        parts += [
            f'<text class="ax" x="{at * SLICE + middle:g}" y="{HEIGHT + AXIS}">{at}</text>'
            for at in range(gpu.axis)
        ]
        height += AXIS
    return _svg("strip", gpu.axis * SLICE, height, label, "".join(parts))


def draw_legal(model: MigModel, layout: Layout) -> SafeString:
    """One layout of the placement table, small, without anybody in it."""
    parts, covered = [], set()
    for cut in layout:
        size = model.by_name[cut.profile].memory_slices
        covered |= set(range(cut.start, cut.start + size))
        middle, name = (cut.start + size / 2) * SMALL - 1, cut.profile.partition(".")[0]
        parts.append(_small("cell free", cut.start, size))
        parts.append(f'<text class="lbl2" x="{middle:g}" y="12.5">{shown(name)}</text>')
    parts += [_small("uncut", at, 1) for at in range(model.axis) if at not in covered]
    label = ", ".join(f"{cut.profile} at {cut.start}" for cut in layout)
    return _svg("legal", model.axis * SMALL, SMALL_HEIGHT + 1, label, "".join(parts))


def _small(kind: str, start: int, size: int) -> str:
    x, width = start * SMALL + 0.5, size * SMALL - 2
    return f'<rect class="{kind}" x="{x}" y=".5" width="{width}" height="{SMALL_HEIGHT}" rx="2"/>'


def _seats(gpu: GpuUse) -> list[tuple[InstanceUse, int]]:
    """Each instance with where it is drawn: side by side where its start is not known."""
    seats, after = [], 0
    for one in gpu.instances:
        start = after if one.start is None else one.start
        after = start + one.size
        seats.append((one, start))
    return seats


def _instance(one: InstanceUse, start: int, marks: Mapping[str, Mark]) -> str:
    x, width = start * SLICE, one.size * SLICE
    name = one.profile if one.size >= WIDE else one.profile.partition(".")[0]
    return _bar(x, width, name, one.use, marks.get(one.pod_uid))


def _whole(gpu: GpuUse, marks: Mapping[str, Mark]) -> str:
    mark = next((marks[uid] for uid in gpu.pod_uids if uid in marks), None)
    return _bar(0, gpu.axis * SLICE, "whole GPU, not cut", gpu.use, mark)


def _bar(x: int, width: int, name: str, use: Use, mark: Mark | None) -> str:
    ground, ink, word = "dots", "lbl", "?"
    if use is Use.FREE:
        ground, ink, word = "free", "lbl2", "free"
    elif use is Use.HELD and mark is not None:
        ground, ink, word = f"f{mark.hue}", f"k{mark.hue}", _name_or_code(mark, width)
    elif width >= 5 * SLICE:
        word = "in use, by whom is not told" if use is Use.HELD else "holder unknown"
    middle = x + width / 2 - 0.5
    return (
        f'<rect class="cell {ground}" x="{x + 1}" y="1" width="{width - 3}" height="{HEIGHT}" rx="2"/>'
        f'<text class="{ink}" x="{middle:g}" y="14">{shown(name)}</text>'
        f'<text class="{ink} who" x="{middle:g}" y="27">{shown(word)}</text>'
    )


def _name_or_code(mark: Mark, width: int) -> str:
    return mark.name if len(mark.name) * LETTER < width - 8 else mark.code


def _uncut(start: int, length: int) -> str:
    x, width = start * SLICE, length * SLICE
    word = "uncut" if length >= WIDE else "–"
    return (
        f'<rect class="uncut" x="{x + 1.5}" y="1.5" width="{width - 4}" height="{HEIGHT - 1}" rx="2"/>'
        f'<text class="lbl2" x="{x + width / 2 - 0.5:g}" y="20.5">{word}</text>'
    )


def _svg(kind: str, width: float, height: float, label: str, inside: str) -> SafeString:
    return mark_safe(
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{shown(label)}">'
        f"{inside}</svg>"
    )
