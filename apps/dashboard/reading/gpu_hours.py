"""What an execution cost and brought in GPU-hours, in words: predicted beside measured, and what is not
known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from apps.dashboard.reading.times import duration, gpu_time
from apps.dashboard.reading.words import plural
from apps.executions.gpu_hours.telling import Standing, Told, Total

CHIPS = {
    Standing.NOT_YET: ("Not yet known", "", "ring"),
    Standing.MEASURING: ("Being measured", "info", "half"),
    Standing.KNOWN: ("Measured", "ok", "ok"),
    Standing.PARTLY: ("Measured with gaps", "warn", "tri"),
    Standing.UNKNOWN: ("Unknown", "warn", "tri"),
}


@dataclass(frozen=True, slots=True)
class HoursRow:
    name: str
    predicted: str
    measured: str
    note: str


@dataclass(frozen=True, slots=True)
class HoursPanel:
    chip: tuple[str, str, str]
    sentence: str
    rows: tuple[HoursRow, ...]


def tell_panel(told: Told | None) -> HoursPanel | None:
    """None where nothing was touched."""
    if told is None:
        return None
    lost = HoursRow(
        "Lost by pods that left", _foreseen(told, won=False), _measured(told, told.lost), _of_lost(told)
    )
    won = HoursRow(
        "Won by what got room", _foreseen(told, won=True), _measured(told, told.won), _of_won(told)
    )
    return HoursPanel(CHIPS[told.standing], _sentence(told), (lost, won))


def _sentence(told: Told) -> str:
    gap = duration(told.unseen_hours * 3600)
    until = f" Known for good at {_at(told.known_at)}." if told.known_at is not None else ""
    if told.standing is Standing.UNKNOWN:
        return "Unknown: the console did not look at the cluster in the 24 h after the end."
    if told.standing is Standing.NOT_YET:
        if told.unseen_hours:
            return f"Not yet known: the console had no fresh picture of the cluster for {gap}.{until}"
        return f"Not yet known: the console looks every 15 min.{until}"
    if told.standing is Standing.KNOWN:
        return "Looked at every 15 min until 24 h after the end."
    missed = (
        f" Unknown for {gap} of that time, since the console did not look: what began and ended then is not "
        "counted."
        if told.unseen_hours
        else ""
    )
    if told.standing is Standing.PARTLY:
        return f"Looked at until 24 h after the end.{missed}"
    at = _at(told.looked_at) if told.looked_at is not None else "the last look"
    return f"As of {at}.{until}{missed}"


def _foreseen(told: Told, *, won: bool) -> str:
    hours = told.won_foreseen if won else told.lost_foreseen
    if hours is None:
        return "none by name" if won and told.lost_foreseen is not None else "unknown"
    return f"{'at most ' if won else ''}{_hours(hours)}"


def _measured(told: Told, hours: float | None) -> str:
    if hours is not None:
        return _hours(hours)
    return "unknown" if told.standing is Standing.UNKNOWN else "not yet known"


def _of_lost(told: Told) -> str:
    if told.lost_work is None or told.lost_away is None or not told.left:
        return ""
    found = [
        f"{_hours(told.lost_work)} of work since the last checkpoint, {_hours(told.lost_away)} until "
        "successors were ready"
    ]
    if told.without_checkpoint:
        found.append(
            f"of {plural(told.left, 'pod')} {told.without_checkpoint} had no known checkpoint, so all "
            "running time counts"
        )
    if told.still_away:
        found.append(f"{plural(told.still_away, 'pod')} not back yet")
    return "; ".join(found)


def _of_won(told: Told) -> str:
    if told.won_unlocked is None or told.won_freed is None:
        return ""
    unlocked, freed = _hours(told.won_unlocked), _hours(told.won_freed)
    return f"{unlocked} by what the plan unlocked, {freed} by others on freed nodes"


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _hours(hours: float) -> str:
    return gpu_time(hours * 3600) if hours > 0 else "0 GPU-h"


def tell_total(total: Total) -> str:
    """A sentence over a cluster's executions, "" where none ended in that time."""
    ended = total.measured + total.pending + total.unknown
    if not ended:
        return ""
    rest = []
    if total.pending:
        rest.append(f"{total.pending} not yet known")
    if total.unknown:
        rest.append(f"{total.unknown} unknown, since the console did not look")
    tail = f" ({', '.join(rest)})" if rest else ""
    head = f"Executions that ended in the last {total.days} days: {ended}{tail}."
    if not total.measured:
        return head
    return (
        f"{head} Measured over {total.measured}: {_hours(total.won)} won (predicted at most "
        f"{_hours(total.won_foreseen)}), {_hours(total.lost)} lost (predicted {_hours(total.lost_foreseen)})."
    )
