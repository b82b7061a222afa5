"""The extenders of the simulated scheduler in their order: who is asked, and what becomes of the answers.

As the stock scheduler: filters one after the other on what the earlier left, scores beside each other and
added at ten times their weight, errors of scores overlooked, other errors fatal unless ignorable. Not here:
the wire (extender) and what the scheduler itself decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts
from apps.simulator.controllers.scheduler.extender import Extender, ExtenderError
from apps.simulator.controllers.scheduler.filters import Verdict
from apps.simulator.controllers.scheduler.preemption import Candidate

log = logging.getLogger(__name__)

SCORE_FACTOR = 10
"""An extender's highest score is 10, a plug-in's 100."""


class Extenders:
    def __init__(self, extenders: Sequence[Extender]) -> None:
        self._all = tuple(extenders)

    def any_concerns(self, pod: PodFacts) -> bool:
        return any(each.concerns(pod) for each in self._all)

    async def filter(
        self, pod: PodFacts, fitting: list[NodeFacts], verdicts: dict[str, Verdict]
    ) -> list[NodeFacts]:
        """The nodes that all leave; those refused are added to `verdicts`. Raises ExtenderError."""
        for extender in self._all:
            if not fitting:
                break
            if not extender.settings.filter_verb or not extender.concerns(pod):
                continue
            try:
                answer = await extender.filter(pod, fitting)
            except ExtenderError as error:
                if not extender.settings.is_ignorable:
                    raise
                log.info("extender %s is overlooked: %s", extender.settings.url_prefix, error)
                continue
            for name, words in answer.failed.items():
                verdicts[name] = Verdict((words,))
            for name, words in answer.unresolvable.items():
                verdicts[name] = Verdict((words,), resolvable=False)
            by_name = {node.name: node for node in fitting}
            fitting = [by_name[name] for name in answer.names]
        return fitting

    async def score(self, pod: PodFacts, nodes: Sequence[NodeFacts]) -> Counter[str]:
        """What they add to each node's score."""
        asked = [each for each in self._all if each.settings.prioritize_verb and each.concerns(pod)]
        total: Counter[str] = Counter()
        answers = await asyncio.gather(*(_ask(each, pod, nodes) for each in asked))
        for extender, scores in zip(asked, answers, strict=True):
            for name, score in scores.items():
                total[name] += score * extender.settings.weight * SCORE_FACTOR
        return total

    async def bind(self, pod: PodFacts, node: str) -> bool:
        """Whether one of them bound it. Raises ExtenderError."""
        for extender in self._all:
            if not extender.settings.bind_verb or not extender.concerns(pod):
                continue
            try:
                await extender.bind(pod, node)
            except ExtenderError as error:
                if not extender.settings.is_ignorable:
                    raise
                log.info("extender %s is overlooked: %s", extender.settings.url_prefix, error)
                continue
            return True
        return False

    async def review_victims(self, pod: PodFacts, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that all of them accept, with the victims that they want. Raises ExtenderError."""
        for extender in self._all:
            if not candidates:
                break
            if not extender.settings.preempt_verb or not extender.concerns(pod):
                continue
            offered = {each.node: (each.victims, each.violations) for each in candidates}
            try:
                answer = await extender.preempt(pod, offered)
                candidates = [_revise(each, answer[each.node]) for each in candidates if each.node in answer]
            except ExtenderError as error:
                if not extender.settings.is_ignorable:
                    raise
                log.info("extender %s is overlooked: %s", extender.settings.url_prefix, error)
        return candidates


async def _ask(extender: Extender, pod: PodFacts, nodes: Sequence[NodeFacts]) -> dict[str, int]:
    try:
        return await extender.prioritize(pod, nodes)
    except ExtenderError as error:
        log.info("the scores of extender %s are overlooked: %s", extender.settings.url_prefix, error)
        return {}


def _revise(candidate: Candidate, answer: tuple[list[str], int]) -> Candidate:
    uids, violations = answer
    if not uids:
        raise ExtenderError(f'expected at least one victim pod on node "{candidate.node}"')
    known: Callable[[str], PodFacts | None] = {each.uid: each for each in candidate.victims}.get
    victims = tuple(each for uid in uids if (each := known(uid)) is not None)
    if len(victims) != len(uids):
        raise ExtenderError(f'extender claims a victim that is not on node "{candidate.node}"')
    return replace(candidate, victims=victims, violations=violations)
