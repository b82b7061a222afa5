"""What the page shows while a plan is computed: stage, best so far, bound, gap, and the time that is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from apps.dashboard.reading.times import duration
from apps.dashboard.reading.words import plural
from apps.plans.models import Plan
from apps.plans.searches import UNITS, Search, search_of

NOT_YET = ("not known yet", "the planner has not told")


@dataclass(frozen=True, slots=True)
class SearchView:
    """best, bound, gap: a value and a note each. since: None until a worker has taken it. elapsed, limit:
    seconds."""

    stage: str
    sentence: str
    best: tuple[str, str]
    bound: tuple[str, str]
    gap: tuple[str, str]
    since: datetime | None
    elapsed: int
    limit: int
    is_stopping: bool

    @property
    def limit_words(self) -> str:
        return duration(self.limit)


def view_search(row: Plan) -> SearchView | None:
    """None where nothing is searched."""
    search = search_of(row)
    if search is None:
        return None
    since = search.computing_since
    elapsed = (timezone.now() - since).total_seconds() if since else 0.0
    return SearchView(
        stage=search.stage,
        sentence=search.sentence,
        best=_best(search),
        bound=_bound(search),
        gap=_gap(search),
        since=since,
        elapsed=int(min(max(0.0, elapsed), search.seconds)),
        limit=round(search.seconds),
        is_stopping=search.stop_asked_at is not None,
    )


def _best(search: Search) -> tuple[str, str]:
    if search.achieved is None:
        return "none yet", "the first plan comes soon"
    word, _, done, _ = UNITS[search.goal]
    return f"{plural(search.achieved, word)} {done}", f"with {plural(search.moves, 'move')}"


def _bound(search: Search) -> tuple[str, str]:
    if search.bound is None:
        return NOT_YET
    word, _, _, do = UNITS[search.goal]
    return f"at most {plural(search.bound, word)}", f"no plan can {do} more"


def _gap(search: Search) -> tuple[str, str]:
    gap = search.gap
    if gap is None or search.bound is None or search.achieved is None:
        return NOT_YET
    more = max(0, search.bound - search.achieved)
    return f"{gap * 100:.0f} %", f"at most {more} more" if more else "no plan does better"
