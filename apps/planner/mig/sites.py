"""Nodes of which something is drained take no moved pod: that rule, as columns and rows.

Not in here: every other rule of the choice of layouts (choosing).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from apps.planner.mig.blocks import Kind
from apps.planner.program import Program

Row = dict[int, float]


class SiteStocks:
    """closed: by site, the column that is 1 while something on it is drained. Only such sites need
    a stock of their own; what the others have idle is counted by group."""

    def __init__(self, kinds: Sequence[Kind], program: Program) -> None:
        self.program = program
        sites = sorted({kind.site for kind in kinds if kind.site and kind.used and not kind.fixed})
        self.closed = {site: program.add_column(0.0, 1.0) for site in sites}
        self._groups = {kind.site: kind.group for kind in kinds}
        self._idle: Counter[tuple[str, str]] = Counter()
        self._rows: dict[tuple[str, str], Row] = defaultdict(lambda: defaultdict(float))

    def add_idle(self, kind: Kind, profile: str, number: int) -> bool:
        """Whether the site keeps a stock of its own."""
        if kind.site in self.closed:
            self._idle[kind.site, profile] += number
        return kind.site in self.closed

    def row(self, kind: Kind, profile: str) -> Row | None:
        return self._rows[kind.site, profile] if kind.site in self.closed else None

    def add_supply(self, early: Mapping[tuple[str, str], Row], profiles: frozenset[str]) -> None:
        """Instances that a site lends to moved pods: no more than are left idle, none while it is closed."""
        for (site, profile), idle in sorted(self._idle.items()):
            if profile not in profiles:
                continue
            lent = self.program.add_column(0.0, idle)
            taken = {column: -weight for column, weight in self._rows[site, profile].items()}
            self.program.add_row({lent: 1.0, **taken}, high=float(idle))
            self.program.add_row({lent: 1.0, self.closed[site]: float(idle)}, high=float(idle))
            early[self._groups[site], profile][lent] += 1.0
