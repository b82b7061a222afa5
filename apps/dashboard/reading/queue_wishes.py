"""Which lines of the queue somebody wants to see, and in which order: read from the address, for the page and
its files alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from apps.dashboard.reading.queue import QueueLine

WAITS = {"0": "any time", "300": "5 min", "3600": "1 h", "86400": "1 day"}
SORTS = {
    "": "fair order",
    "scheduler": "scheduler's order",
    "wait": "longest wait",
    "gpus": "most GPUs",
    "priority": "priority",
    "start": "expected start",
    "queue": "queue",
}
LAST = float("inf")
KEYS: Mapping[str, Callable[[QueueLine], Any]] = {
    "scheduler": lambda line: line.place.scheduler_position or LAST,
    "wait": lambda line: -line.seconds,
    "gpus": lambda line: -line.waiting.gpus,
    "priority": lambda line: -line.waiting.priority,
    "start": lambda line: (line.start.placed_at if line.start else None) or LAST,
    "queue": lambda line: line.place.tenant,
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """simulate: key of the workload whose simulation is open, "" for none. tenant: "queue x" or
    "namespace y". sort: one of SORTS."""

    reason: str
    find: str
    longer: int
    simulate: str
    tenant: str
    sort: str

    @classmethod
    def read(cls, request: HttpRequest) -> Wishes:
        longer, sort = request.GET.get("longer", "0"), request.GET.get("sort", "")
        return cls(
            reason=request.GET.get("reason", "")[:60],
            find=request.GET.get("find", "")[:120],
            longer=int(longer) if longer in WAITS else 0,
            simulate=request.GET.get("simulate", "")[:400],
            tenant=request.GET.get("tenant", "")[:330],
            sort=sort if sort in SORTS else "",
        )

    @property
    def query(self) -> str:
        """The address of the same choice, without the simulation."""
        chosen = {
            "reason": self.reason,
            "find": self.find,
            "longer": str(self.longer or ""),
            "tenant": self.tenant,
            "sort": self.sort,
        }
        return urlencode({name: value for name, value in chosen.items() if value})

    def choose(self, lines: Sequence[QueueLine]) -> list[QueueLine]:
        """lines: in the fair order, which stays where others are equal."""
        wanted = self.find.strip().lower()
        found = [
            line
            for line in lines
            if (not self.reason or self.reason == _reason_of(line))
            and (not self.tenant or line.place.tenant == self.tenant)
            and line.seconds >= self.longer
            and wanted in _haystack(line)
        ]
        return sorted(found, key=KEYS[self.sort]) if self.sort else found


def list_reasons(lines: Sequence[QueueLine]) -> list[tuple[str, str]]:
    """Codes with their words, to choose from."""
    return sorted({(_reason_of(line), line.reason) for line in lines}, key=lambda entry: entry[1])


def _reason_of(line: QueueLine) -> str:
    return f"never-{line.waiting.reason_code}" if line.waiting.never else line.waiting.reason_code


def _haystack(line: QueueLine) -> str:
    waiting = line.waiting
    return f"{' '.join(line.keys)} {waiting.display} {waiting.queue} {line.reason}".lower()
