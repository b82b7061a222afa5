"""A GPU that is cut by MIG, by memory slice: where each instance starts, how long it is, who uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.occupancy import Part
from apps.dashboard.reading.plain import shown

SLICES, WIDTH = 8, 35


def draw_layout(parts: Sequence[Part], marks: Mapping[str, Mark], label: str) -> SafeString:
    out, covered = [], 0.0
    for part in parts:
        x, width = part.start * SLICES * WIDTH, part.size * SLICES * WIDTH
        covered = max(covered, part.start + part.size)
        mark = marks.get(part.pod_uid)
        kind, ink = (
            (f"f{mark.hue}", f"k{mark.hue}") if mark else ("f0", "k0") if part.pod_uid else ("free", "lbl2")
        )
        text = part.label if width > 40 else part.label.split(".")[0]
        out.append(
            f'<rect class="cell {kind}" x="{x + 1:g}" y="1" width="{width - 3:g}" height="26" rx="2"/>'
        )
        out.append(f'<text class="{ink}" x="{x + width / 2:g}" y="18">{shown(text)}</text>')
    if covered < 1:
        x, width = covered * SLICES * WIDTH, (1 - covered) * SLICES * WIDTH
        out.append(f'<rect class="uncut" x="{x + 1:g}" y="1" width="{width - 3:g}" height="26" rx="2"/>')
        if width > WIDTH:
            out.append(f'<text class="lbl2" x="{x + width / 2:g}" y="18">uncut</text>')
    out += [f'<text class="ax" x="{at * WIDTH + WIDTH / 2:g}" y="41">{at}</text>' for at in range(SLICES)]
    return mark_safe(
        f'<svg class="strip" viewBox="0 0 280 46" role="img" aria-label="{shown(label)}">{"".join(out)}</svg>'
    )
