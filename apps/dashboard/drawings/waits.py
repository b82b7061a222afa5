"""How long pods of one queue and shape waited over time: a bar per stretch of the range, to the median and to
the slow tenth. The numbers stand in the table beside it."""

from __future__ import annotations

from html import escape

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.times import rough_duration
from apps.pending.history import WaitTrend

WIDTH, HEIGHT, STEP, TOP, FOOT = 288, 46, 12, 4, 2


def draw_waits(trend: WaitTrend) -> SafeString:
    """Scaled to the trend's own slowest tenth: the shapes of lines are compared, not their sizes."""
    most = max((point.p90_seconds or 0.0 for point in trend.points), default=0.0) or 1.0
    room = HEIGHT - TOP - FOOT

    def y(seconds: float | None) -> float:
        return TOP + room * (1 - min(1.0, (seconds or 0.0) / most))

    bottom = HEIGHT - FOOT
    parts = [f'<path class="axisline" d="M0 {bottom}H{WIDTH}"/>']
    for at, point in enumerate(trend.points):
        if not point.started or point.p50_seconds is None:
            continue
        x, middle, slow = at * STEP + 1, y(point.p50_seconds), y(point.p90_seconds)
        half, most_of = rough_duration(point.p50_seconds), rough_duration(point.p90_seconds or 0)
        words = (
            f"{point.since:%d %b %H:%M} to {point.until:%H:%M} UTC: {point.started} started, "
            f"half within {half}, nine in ten within {most_of}"
        )
        parts.append(
            f'<g><title>{escape(words)}</title><rect class="wait-slow" x="{x}" y="{slow:.1f}" '
            f'width="{STEP - 2}" height="{max(bottom - slow, 1):.1f}"/><rect class="wait-half" x="{x}" '
            f'y="{middle:.1f}" width="{STEP - 2}" height="{max(bottom - middle, 1):.1f}"/></g>'
        )
    label = escape(f"Waits of {trend.queue}, {trend.shape}, over time; the numbers stand beside it")
    return mark_safe(  # noqa: S308 (every text in it is escaped above)
        f'<svg class="chart waits" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )
