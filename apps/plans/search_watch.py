"""Stands between a search and everybody who waits for it: the planner asks whether time is up, and tells how
far it is; people see that, and may end it early.

The planner asks often, so the rows are asked seldom. A database that is away for a while ends no search.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

import structlog
from django.db import Error as DatabaseFault
from django.db import connection

from apps.planner.progress import Progress
from apps.plans import queries, services
from apps.plans.models import Plan
from apps.plans.states import SearchEnding

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.25
"""So long at most a wish to end the search waits until it is heard."""
TELL_SECONDS = 0.5
RENEW_SECONDS = 20.0


class SearchWatch:
    """One search for one version. ending: what cut it short, "" while nothing did. seconds: how long it
    has lasted."""

    def __init__(self, plan: Plan, *, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._begun = self._renewed_at = clock()
        self._end = self._begun + limit
        self._looked_at = self._told_at = float("-inf")
        self._untold: Progress | None = None
        self.ending = ""

    @property
    def seconds(self) -> float:
        return self._clock() - self._begun

    def is_over(self) -> bool:
        """The planner's deadline. Once it is over it stays so."""
        if self.ending:
            return True
        now = self._clock()
        if now >= self._end:
            self.ending = SearchEnding.LIMIT
        elif now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._at_the_rows(self._look)
        return bool(self.ending)

    def hear(self, progress: Progress) -> None:
        """The planner's word of how far it is: written at once, or with the next look if one just was."""
        self._untold = progress
        if not self.ending and self._clock() - self._told_at >= TELL_SECONDS:
            self._at_the_rows(self._tell)

    def _look(self) -> None:
        if queries.is_stop_asked(plan_id=self._plan.pk, number=self._plan.version_number):
            self.ending = SearchEnding.STOPPED
        elif self._untold is not None and self._clock() - self._told_at >= TELL_SECONDS:
            self._tell()
        elif self._clock() - self._renewed_at >= RENEW_SECONDS:
            self._renewed_at = self._clock()
            services.renew_claim(plan_id=self._plan.pk, number=self._plan.version_number)

    def _tell(self) -> None:
        if self._untold is None:
            return
        told, self._untold = asdict(self._untold), None
        self._told_at = self._renewed_at = self._clock()
        services.note_progress(plan=self._plan, told=told)

    def _at_the_rows(self, act: Callable[[], None]) -> None:
        try:
            act()
        except DatabaseFault as error:
            log.warning("a search goes on without the database", plan=self._plan.pk, error=str(error))
            connection.close_if_unusable_or_obsolete()
