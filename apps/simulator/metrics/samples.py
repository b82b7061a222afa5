"""Samples for the evaluation of a query: the values at the moments of the scrapes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from apps.simulator.metrics.history import SCRAPE_SECONDS, History, NodePast, Shown, last_scrape
from apps.simulator.metrics.promql.evaluation import Vector
from apps.simulator.metrics.promql.syntax import Matcher
from apps.simulator.metrics.views import Labels, Series

STALE_SECONDS = 300.0


class Samples:
    """Made anew for every query: it remembers which series a selector takes."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._chosen: dict[tuple[int, tuple[Matcher, ...]], tuple[Shown, list[tuple[Labels, Series]]]] = {}
        self._pasts = list(history.nodes.values())

    def instant(self, matchers: tuple[Matcher, ...], moment: float) -> Vector:
        scrape = last_scrape(min(moment, time.time()))
        if moment - scrape > STALE_SECONDS or scrape < self._history.began:
            return []
        return [
            (labels, series.value(scrape))
            for past in self._pasts
            for labels, series in self._select(past.at(scrape), matchers)
        ]

    def samples(
        self, matchers: tuple[Matcher, ...], after: float, until: float
    ) -> Iterator[tuple[Labels, list[tuple[float, float]]]]:
        scrapes = _scrapes(max(after, self._history.began), min(until, time.time()))
        for past in self._pasts:
            yield from self._of_node(past, matchers, scrapes)

    def series(self, matchers: tuple[Matcher, ...], after: float, until: float) -> Iterator[Labels]:
        """The labels alone, each once."""
        for past in self._pasts:
            seen: set[frozenset[tuple[str, str]]] = set()
            for shown in past.between(after, until):
                for labels, _ in self._select(shown, matchers):
                    key = frozenset(labels.items())
                    if key not in seen:
                        seen.add(key)
                        yield labels

    def _of_node(
        self, past: NodePast, matchers: tuple[Matcher, ...], scrapes: list[float]
    ) -> Iterable[tuple[Labels, list[tuple[float, float]]]]:
        found: dict[frozenset[tuple[str, str]], tuple[Labels, list[tuple[float, float]]]] = {}
        for shown, moments in past.segments(scrapes):
            for labels, series in self._select(shown, matchers):
                samples = [(moment, series.value(moment)) for moment in moments]
                known = found.setdefault(frozenset(labels.items()), (labels, []))
                known[1].extend(samples)
        return found.values()

    def _select(self, shown: Shown, matchers: tuple[Matcher, ...]) -> list[tuple[Labels, Series]]:
        key = (id(shown), matchers)
        known = self._chosen.get(key)
        if known is None:
            chosen = [
                each
                for each in shown
                if all(matcher.fits(each[0].get(matcher.label, "")) for matcher in matchers)
            ]
            known = self._chosen[key] = (shown, chosen)
        return known[1]


def _scrapes(after: float, until: float) -> list[float]:
    """The scrapes later than `after`, up to `until`."""
    first = int(after // SCRAPE_SECONDS) + 1
    return [count * SCRAPE_SECONDS for count in range(first, int(until // SCRAPE_SECONDS) + 1)]
