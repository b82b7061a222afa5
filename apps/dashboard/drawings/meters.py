"""Small bars: the allocated meter of the tiles, the ramps of the legend, the progress of an execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.safestring import SafeString, mark_safe


def draw_meter(used: float, stranded: float) -> SafeString:
    """Shares of one, side by side: what is allocated, then what is free and stranded."""
    used, stranded = min(used, 1.0), min(stranded, max(0.0, 1 - used))
    return mark_safe(
        '<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bg" width="100" height="6"/><rect class="a" width="{used * 100:.1f}" height="6"/>'
        f'<rect class="s" x="{used * 100:.1f}" width="{stranded * 100:.1f}" height="6"/></svg>'
    )


def draw_ramp(kind: str, low: str, high: str) -> SafeString:
    """kind: "q" (fragmentation) or "l" (links); six steps."""
    cells = "".join(
        f'<rect class="{kind}{step}" x="{step * 38}" y="0" width="38" height="12"/>' for step in range(6)
    )
    return mark_safe(
        f'<div class="ramp"><svg viewBox="0 0 228 30" role="img" aria-label="{low} to {high}">{cells}'
        f'<text x="0" y="26">{low}</text><text x="228" y="26" text-anchor="end">{high}</text></svg></div>'
    )


def draw_progress(counts: Mapping[str, int], order: Sequence[str], label: str) -> SafeString:
    """One bar of steps by state. order: classes from left to right (v, r, b, p)."""
    total = sum(counts.values()) or 1
    x, parts = 0.0, []
    for kind in order:
        width = counts.get(kind, 0)
        if width:
            parts.append(f'<rect class="{kind}" x="{x:g}" width="{width - total * 0.0016:.3f}" height="10"/>')
        x += width
    return mark_safe(
        f'<svg class="prog" viewBox="0 0 {total} 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
