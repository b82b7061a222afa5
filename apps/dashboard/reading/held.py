"""What we hold in a cluster, as the page shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.executions.holdings import KEPT, LEFT_OVER, OURS, UNKNOWN, Held

CHIPS = {
    OURS: ("ours", "ok"),
    LEFT_OVER: ("left over", "warn"),
    UNKNOWN: ("not known", "bad"),
    KEPT: ("stays", ""),
}
MEANINGS = {
    OURS: "an open execution has it and gives it back",
    LEFT_OVER: "its execution has ended: the timer or a release takes it away",
    UNKNOWN: "this database does not know it: another console’s, or an earlier database’s",
    KEPT: "outlives executions by intent",
}
SHOWN_AT_MOST = 300


@dataclass(frozen=True, slots=True)
class ShownHeld:
    """word, tone: of its chip."""

    held: Held
    word: str
    tone: str
    is_overdue: bool


def list_held(found: Iterable[Held], now: datetime) -> list[ShownHeld]:
    """What asks for somebody first: overdue, then not known, left over, ours and what stays."""
    order = [UNKNOWN, LEFT_OVER, OURS, KEPT]
    shown = [
        ShownHeld(one, *CHIPS[one.standing], one.deadline is not None and one.deadline < now) for one in found
    ]
    return sorted(shown, key=lambda one: (not one.is_overdue, order.index(one.held.standing), one.held.where))


def count_standings(shown: Iterable[ShownHeld]) -> list[tuple[str, str, int, str]]:
    """word, tone, how many, what it means; those that occur."""
    rows = list(shown)
    counts = {standing: sum(one.held.standing == standing for one in rows) for standing in CHIPS}
    return [(*CHIPS[one], count, MEANINGS[one]) for one, count in counts.items() if count]
