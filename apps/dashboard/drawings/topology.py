"""The link matrix of one node as a heatmap: an ordinal scale with the codes written in, NUMA brackets."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.plain import shown
from apps.planner.inventory import LinkClass, Node
from apps.planner.topology import link_class

WIDTH, HEIGHT, GAP, BORDER = 54, 30, 2, 6
LEFT, TOP = 96, 52
SCALE = (
    ("NV, XGMI, HCCS", 0, "direct link"),
    ("PIX", 1, "one PCIe switch"),
    ("PXB", 2, "several switches"),
    ("PHB", 3, "host bridge"),
    ("NODE", 4, "same NUMA node"),
    ("SYS", 5, "across CPUs"),
)
_STEP = {"PIX": "1", "PXB": "2", "PHB": "3", "NODE": "4", "SYS": "5", "SOC": "5"}


def link_step(code: str) -> str:
    """The step of the scale that a code belongs to: "0" to "5", "u" for words never seen."""
    if link_class(code) is LinkClass.NVLINK:
        return "0"
    return _STEP.get(code.strip().upper(), "u")


def draw_matrix(node: Node, free: Sequence[int], links: Sequence[Sequence[str]]) -> SafeString:
    """links: n x n codes. free: positions of free GPUs; their names are set bold."""
    numas = [gpu.numa for gpu in node.gpus]
    across = [LEFT + place * (WIDTH + GAP) + _borders(numas, place) for place in range(len(numas))]
    down = [TOP + place * (HEIGHT + GAP) + _borders(numas, place) for place in range(len(numas))]
    parts = [*_brackets(numas, across, down)]
    for a, y in enumerate(down):
        name = "hd free-gpu" if a in free else "hd"
        label = f"GPU{node.gpus[a].index}"
        parts.append(f'<text class="{name}" x="{across[a] + WIDTH / 2:g}" y="42">{label}</text>')
        parts.append(f'<text class="{name}" x="66" y="{y + 19:g}">{label}</text>')
        parts += [_cell(x, y, links[a][b], a == b) for b, x in enumerate(across)]
    width, height = across[-1] + WIDTH + 4, down[-1] + HEIGHT + 4
    label = f"Link matrix of {len(numas)} GPUs; the table below holds the same codes"
    return mark_safe(
        f'<svg class="mtx chart" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{label}">{"".join(parts)}</svg>'
    )


def draw_nics(node: Node, names: Sequence[str], links: Sequence[Sequence[str]]) -> SafeString:
    """links: one row per GPU, one code per NIC; drawn with a row per NIC, under the GPUs' columns."""
    numas = [gpu.numa for gpu in node.gpus]
    across = [LEFT + place * (WIDTH + GAP) + _borders(numas, place) for place in range(len(numas))]
    parts = []
    for row, name in enumerate(names):
        y = row * (HEIGHT + GAP)
        parts.append(f'<text class="hd" x="46" y="{y + 19}">{shown(name[:12])}</text>')
        codes = (cells[row] if row < len(cells) else "" for cells in links)
        parts += [_cell(x, y, code, False) for x, code in zip(across, codes, strict=False)]
    size = f"0 0 {across[-1] + WIDTH + 4:g} {len(names) * (HEIGHT + GAP)}"
    label = f"Links from {len(names)} NICs to the GPUs"
    picture = "".join(parts)
    return mark_safe(
        f'<svg class="mtx chart" viewBox="{size}" role="img" aria-label="{label}">{picture}</svg>'
    )


def _borders(numas: Sequence[int | None], place: int) -> int:
    return BORDER * sum(numas[at] != numas[at - 1] for at in range(1, place + 1))


def _cell(x: float, y: float, code: str, is_self: bool) -> str:
    middle = f'x="{x + WIDTH / 2:g}" y="{y + 19:g}"'
    box = f'x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="2"'
    if is_self:
        return f'<rect class="d" {box}/><text class="nm" {middle}>self</text>'
    step = link_step(code)
    if not code.strip():
        unknown = "<title>not known, which is not “no link”</title>"
        return f'<rect class="lu" {box}>{unknown}</rect><text class="ltu" {middle}>?</text>'
    return f'<rect class="l{step}" {box}/><text class="lt{step}" {middle}>{shown(code[:8]) or "?"}</text>'


def _brackets(numas: Sequence[int | None], across: Sequence[float], down: Sequence[float]) -> list[str]:
    """One bracket over and beside each run of GPUs of one NUMA node; none where it is not told."""
    parts, start = [], 0
    for place in range(1, len(numas) + 1):
        if place < len(numas) and numas[place] == numas[start]:
            continue
        if numas[start] is not None:
            name = f"NUMA {numas[start]}"
            x0, x1 = across[start], across[place - 1] + WIDTH
            y0, y1 = down[start], down[place - 1] + HEIGHT
            parts.append(f'<path class="bracket" d="M{x0:g} 24V18H{x1:g}V24M34 {y0:g}H28V{y1:g}H34"/>')
            parts.append(f'<text class="nm" x="{(x0 + x1) / 2:g}" y="12">{name}</text>')
            parts.append(
                f'<text class="nm" transform="translate(18 {(y0 + y1) / 2:g}) rotate(-90)">{name}</text>'
            )
        start = place
    return parts
