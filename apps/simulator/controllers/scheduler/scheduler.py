"""The scheduling loop: takes a pod from the queue, decides, binds or says why not.

Only pods of `default-scheduler`. Deciding is synchronous, so no change of the cluster falls in
between, but where extenders are asked: then what they answer is about the moment of the question, as
with the stock scheduler. Binding and the API writes run beside it. Not here: the rules (filters, scores,
preemption) and the extenders' wire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import aiohttp

from apps.simulator.client import ApiError
from apps.simulator.controllers.controller import QUIET_ERRORS, Context
from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts
from apps.simulator.controllers.scheduler.extender import Extender, ExtenderError
from apps.simulator.controllers.scheduler.extenders import Extenders
from apps.simulator.controllers.scheduler.failures import Failures, Jobs
from apps.simulator.controllers.scheduler.filters import Decision, Verdict, check_node
from apps.simulator.controllers.scheduler.intake import Intake
from apps.simulator.controllers.scheduler.leading import Leading
from apps.simulator.controllers.scheduler.preemption import (
    Candidate,
    choose_candidate,
    find_candidates,
    is_eligible,
)
from apps.simulator.controllers.scheduler.queue import QueuedPod
from apps.simulator.controllers.scheduler.recorder import EventRecorder
from apps.simulator.controllers.scheduler.scores import score_nodes
from apps.simulator.controllers.scheduler.topology_state import TopologyState
from apps.simulator.controllers.scheduler.words import explain, explain_preemption

log = logging.getLogger(__name__)

_ALL_UP_TO = 100


class Scheduler:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.client = context.client
        self.intake = Intake(context)
        self.cache = self.intake.cache
        self.queue = self.intake.queue
        self.recorder = EventRecorder(context.client, "default-scheduler")
        self._jobs = Jobs()
        self._failures = Failures(context.client, self.cache, self.recorder, self._jobs)
        self._next_start = 0
        self.settings = context.scheduler
        self.extenders = Extenders(())

    async def run(self) -> None:
        if self.settings.elects:
            leading = Leading(self.client, self.context.pace)
            await leading.begin()
            self._jobs.spawn(leading.keep())
        self.intake.start()
        # Connections are kept between calls, as Go's client keeps them.
        async with aiohttp.ClientSession() as session:
            self.extenders = Extenders([Extender(each, session) for each in self.settings.extenders])
            try:
                while True:
                    entry = await self.queue.pop()
                    await self._schedule(entry)
                    await asyncio.sleep(0)
            finally:
                self._jobs.cancel()

    async def _schedule(self, entry: QueuedPod) -> None:
        try:
            if self.extenders.any_concerns(entry.pod):
                await self._schedule_with_extenders(entry)
            else:
                self._schedule_alone(entry)
        except ExtenderError as error:
            if self.queue.holds(entry):
                self._tell_error(entry, str(error))

    def _schedule_alone(self, entry: QueuedPod) -> None:
        decision = self._begin(entry.pod)
        fitting, verdicts = self._find_fitting(decision)
        if fitting:
            self._assume(entry, self._choose(entry.pod, fitting, {}))
        else:
            self._give_up(entry, decision, verdicts)

    async def _schedule_with_extenders(self, entry: QueuedPod) -> None:
        """Raises ExtenderError."""
        pod = entry.pod
        decision = self._begin(pod)
        fitting, verdicts = self._find_fitting(decision)
        is_nominated = [node.name for node in fitting] == [pod.nominated]
        fitting = await self.extenders.filter(pod, fitting, verdicts)
        if is_nominated and not fitting:
            # The nominated node alone was asked about; now all of them are.
            fitting, verdicts = self._find_fitting(decision, except_nominated=True)
            fitting = await self.extenders.filter(pod, fitting, verdicts)
        if not fitting:
            candidates = await self._find_candidates(decision, verdicts)
            if self.queue.holds(entry):
                self._give_up(entry, decision, verdicts, candidates)
            return
        added = await self.extenders.score(pod, fitting) if len(fitting) > 1 else {}
        if self.queue.holds(entry):
            self._assume(entry, self._choose(pod, fitting, added))

    async def _find_candidates(self, decision: Decision, verdicts: dict[str, Verdict]) -> list[Candidate]:
        if is_eligible(decision):
            return []
        found = find_candidates(decision, verdicts, self.intake.budgets())
        return await self.extenders.review_victims(decision.pod, found)

    def _begin(self, pod: PodFacts) -> Decision:
        topology = None
        if TopologyState.concerns(pod, self.cache):
            topology = TopologyState(pod, self.cache, self.intake.namespace_labels())
        return Decision(pod, self.cache, topology, self.settings.ignored_resources)

    def _assume(self, entry: QueuedPod, node: str) -> None:
        pod = entry.pod
        self.queue.remove(pod.uid)
        self.cache.put(pod, node)
        self.cache.assumed.add(pod.uid)
        self._jobs.spawn(self._bind(entry, node))

    def _find_fitting(
        self, decision: Decision, *, except_nominated: bool = False
    ) -> tuple[list[NodeFacts], dict[str, Verdict]]:
        """Like the stock scheduler it stops at a sample of the nodes, starting where it left off."""
        verdicts: dict[str, Verdict] = {}
        preferred = self.cache.nodes.get(decision.pod.nominated)
        if preferred and not except_nominated and check_node(decision, preferred).fits:
            return [preferred], verdicts
        names = self.cache.order
        enough = _sample_size(len(names), self.settings.percentage)
        fitting: list[NodeFacts] = []
        looked_at = 0
        for looked_at in range(1, len(names) + 1):
            node = self.cache.nodes[names[(self._next_start + looked_at - 1) % len(names)]]
            verdict = check_node(decision, node)
            if verdict.fits:
                fitting.append(node)
                if len(fitting) >= enough:
                    break
            else:
                verdicts[node.name] = verdict
        if names:
            self._next_start = (self._next_start + looked_at) % len(names)
        return fitting, verdicts

    def _choose(self, pod: PodFacts, fitting: list[NodeFacts], added: Mapping[str, int]) -> str:
        """added: what the extenders give each node on top of the scheduler's own scores."""
        if len(fitting) == 1:
            return fitting[0].name
        scores = {name: own + added.get(name, 0) for name, own in score_nodes(pod, fitting).items()}
        best = max(scores.values())
        return self.context.rng.choice([name for name, score in scores.items() if score >= best - 1e-9])

    # --- nothing fits ---

    def _give_up(
        self,
        entry: QueuedPod,
        decision: Decision,
        verdicts: dict[str, Verdict],
        candidates: list[Candidate] | None = None,
    ) -> None:
        """candidates: what the extenders left; None where they were not asked."""
        total = len(self.cache.nodes)
        message = explain(total, verdicts)
        refusal = is_eligible(decision)
        candidate = None
        if not refusal:
            if candidates is None:
                candidates = find_candidates(decision, verdicts, self.intake.budgets())
            candidate = choose_candidate(candidates)
        if candidate is None:
            message += explain_preemption(total, verdicts, refusal)
        self.recorder.record(entry.pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        # As the stock scheduler: a pod that may preempt and finds no victim loses its nomination.
        keeps = bool(refusal)
        if candidate:
            self.cache.nominate(entry.pod, candidate.node)
        elif not keeps:
            self.cache.forget_nomination(entry.pod.uid)
        self.queue.park(entry)
        self._failures.tell(entry, message, candidate, keeps=keeps)

    def _tell_error(self, entry: QueuedPod, message: str) -> None:
        """An extender failed: nothing is known about the nodes. Tried again after the back-off."""
        self.recorder.record(entry.pod.pod, "Warning", "FailedScheduling", "Scheduling", message)
        self.queue.fail(entry)
        self._failures.tell(entry, message, None, keeps=True, reason="SchedulerError")

    # --- it fits ---

    async def _bind(self, entry: QueuedPod, node: str) -> None:
        pod = entry.pod
        try:
            if not await self.extenders.bind(pod, node):
                await self.client.bind(pod.pod, node)
        except (ApiError, ExtenderError, *QUIET_ERRORS) as error:
            log.info("binding of %s to %s failed: %s", pod.key, node, error)
            self._take_back(entry)
            return
        note = f"Successfully assigned {pod.key} to {node}"
        self.recorder.record(pod.pod, "Normal", "Scheduled", "Binding", note)

    def _take_back(self, entry: QueuedPod) -> None:
        uid = entry.pod.uid
        if uid not in self.cache.assumed:
            return
        self.cache.assumed.discard(uid)
        self.cache.take_out(uid)
        self.intake.try_again_later(entry)


def _sample_size(nodes: int, percentage: int | None) -> int:
    """How many fitting nodes are enough: all of 100, then `percentage`; without one (50 - nodes / 125) %, at
    least 5."""
    if nodes <= _ALL_UP_TO:
        return nodes
    percent = float(percentage) if percentage else max(5.0, 50 - nodes / 125)
    return max(_ALL_UP_TO, int(nodes * percent / 100))
