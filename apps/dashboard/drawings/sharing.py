"""GPUs shared in time (time-slicing, MPS and the like) as slots: whose a slot is, which are free."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.plain import shown

SLOT, GAP, A_ROW = 24, 3, 16


def draw_slots(marks: Sequence[Mark | None], total: int, label: str) -> SafeString:
    """marks: of the slots in use, in order; None for a pod without a mark. total: slots in all."""
    parts = []
    for at in range(total):
        x, y = at % A_ROW * (SLOT + GAP) + 0.5, at // A_ROW * (SLOT + GAP) + 0.5
        held = at < len(marks)
        mark = marks[at] if held else None
        ground, ink, word = ("free", "", "") if not held else ("dots", "lbl", "?")
        if mark is not None:
            ground, ink, word = f"f{mark.hue}", f"k{mark.hue}", mark.code
        parts.append(f'<rect class="cell {ground}" x="{x}" y="{y}" width="{SLOT}" height="{SLOT}" rx="3"/>')
        if word:
            parts.append(f'<text class="{ink}" x="{x + SLOT / 2}" y="{y + 16}">{shown(word)}</text>')
    rows = -(-total // A_ROW)
    width = min(total, A_ROW) * (SLOT + GAP)
    return mark_safe(
        f'<svg class="slots" viewBox="0 0 {max(width, 1)} {max(rows * (SLOT + GAP), 1)}"'
        f' width="{max(width, 1)}" height="{max(rows * (SLOT + GAP), 1)}" role="img"'
        f' aria-label="{shown(label)}">{"".join(parts)}</svg>'
    )
