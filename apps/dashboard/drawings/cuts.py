"""One GPU before or after it is cut anew, by memory slice: what is there, not who uses it.

Not in here: layouts with their pods (mig).
"""

from __future__ import annotations

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.plain import shown
from apps.planner.mig.layouts import Layout
from apps.planner.mig.models import MigModel

SLICE, HEIGHT = 24, 22
WIDE = 2
"""From so many memory slices on, the whole profile name fits."""


def draw_cut(model: MigModel, layout: Layout, label: str) -> SafeString:
    """An empty layout is a whole GPU."""
    parts, covered = [], set()
    for cut in layout:
        size = model.by_name[cut.profile].memory_slices
        covered |= set(range(cut.start, cut.start + size))
        name = cut.profile if size >= WIDE else cut.profile.partition(".")[0]
        parts += [_bar("cell free", cut.start, size), _text(cut.start, size, name)]
    if layout:
        parts += [_bar("uncut", at, 1) for at in range(model.axis) if at not in covered]
    else:
        parts += [_bar("cell free", 0, model.axis), _text(0, model.axis, "whole GPU")]
    return _svg(model.axis * SLICE, label, "".join(parts))


def draw_untold(slices: int, label: str) -> SafeString:
    """A layout that nobody tells."""
    return _svg(slices * SLICE, label, _bar("uncut", 0, slices) + _text(0, slices, "not told"))


def _bar(kind: str, start: int, size: int) -> str:
    x, width = start * SLICE + 0.5, size * SLICE - 2
    return f'<rect class="{kind}" x="{x}" y=".5" width="{width}" height="{HEIGHT}" rx="2"/>'


def _text(start: int, size: int, name: str) -> str:
    middle = (start + size / 2) * SLICE - 1
    return f'<text class="lbl2" x="{middle:g}" y="15.5">{shown(name)}</text>'


def _svg(width: int, label: str, inside: str) -> SafeString:
    return mark_safe(
        f'<svg class="cutstrip" viewBox="0 0 {width} {HEIGHT + 1}" role="img" aria-label="{shown(label)}">'
        f"{inside}</svg>"
    )
