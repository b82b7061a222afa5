"""How many alerts are open and which is the worst, in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apps.alerts.models import Alert
from apps.alerts.queries import open_alerts_for
from apps.alerts.states import Kind

if TYPE_CHECKING:
    from apps.accounts.queries import Person

ORDER = list(Kind)


@dataclass(frozen=True, slots=True)
class AlertBar:
    count: int
    worst: Alert


def tell_bar(user: Person) -> AlertBar | None:
    """None where nothing is wrong."""
    found = list(open_alerts_for(user))
    if not found:
        return None
    return AlertBar(len(found), min(found, key=lambda one: (ORDER.index(Kind(one.kind)), one.since)))
