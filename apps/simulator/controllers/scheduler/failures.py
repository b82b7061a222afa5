"""Writes of the scheduler that run beside its loop: what is told of pods that it could not place.

Not in here: why a pod could not be placed, and whom it would preempt (preemption).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from apps.simulator.client import PODS, STRATEGIC, ApiError, KubernetesClient
from apps.simulator.controllers.controller import QUIET_ERRORS
from apps.simulator.controllers.objects import condition_of, make_condition
from apps.simulator.controllers.scheduler.cache import PodFacts, SchedulerCache
from apps.simulator.controllers.scheduler.preemption import Candidate
from apps.simulator.controllers.scheduler.queue import QueuedPod
from apps.simulator.controllers.scheduler.recorder import EventRecorder

Json = dict[str, Any]
log = logging.getLogger(__name__)


class Jobs:
    """What runs beside the loop; a failure of one is logged and ends nothing else."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ApiError, *QUIET_ERRORS) as error:
            log.warning("scheduler: %s", error)


class Failures:
    def __init__(
        self, client: KubernetesClient, cache: SchedulerCache, recorder: EventRecorder, jobs: Jobs
    ) -> None:
        self._client, self._cache, self._recorder, self._jobs = client, cache, recorder, jobs
        self._telling: dict[str, asyncio.Task[None]] = {}

    def tell(
        self,
        entry: QueuedPod,
        message: str,
        candidate: Candidate | None,
        *,
        keeps: bool,
        reason: str = "Unschedulable",
    ) -> None:
        """Written beside the loop, each pod's in their order: no earlier attempt's words arrive last."""
        uid = entry.pod.uid
        before = self._telling.get(uid)

        async def tell() -> None:
            if before is not None:
                await asyncio.wait([before])
            await self._write(entry.pod, message, candidate, keeps=keeps, reason=reason)

        task = self._telling[uid] = self._jobs.spawn(tell())
        task.add_done_callback(
            lambda done: self._telling.pop(uid) if self._telling.get(uid) is done else None
        )

    async def _write(
        self, pod: PodFacts, message: str, candidate: Candidate | None, *, keeps: bool, reason: str
    ) -> None:
        if candidate:
            await self._mark_victims(pod, candidate)
        old = condition_of(pod.pod, "PodScheduled") or {}
        status: Json = {}
        if (old.get("reason"), old.get("message")) != (reason, message):
            condition = make_condition("PodScheduled", "False", reason, message)
            if old.get("status") == "False" and old.get("lastTransitionTime"):
                condition["lastTransitionTime"] = old["lastTransitionTime"]
            status["conditions"] = [condition]
        nominated = candidate.node if candidate else ""
        if not keeps and pod.nominated != nominated:
            status["nominatedNodeName"] = nominated or None
        if status:
            await self._patch_status(pod, status)
        if candidate:
            await self._delete_victims(pod, candidate)

    async def _mark_victims(self, pod: PodFacts, candidate: Candidate) -> None:
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        condition = make_condition("DisruptionTarget", "True", "PreemptionByScheduler", message)
        for victim in candidate.victims:
            await self._patch_status(victim, {"conditions": [condition]})

    async def _delete_victims(self, pod: PodFacts, candidate: Candidate) -> None:
        for victim in candidate.victims:
            meta = victim.pod["metadata"]
            try:
                await self._client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            note = f"Preempted by pod {pod.uid} on node {candidate.node}"
            self._recorder.record(victim.pod, "Normal", "Preempted", "Preempting", note)
        for other in self._cache.nominated_on(candidate.node):
            if other.priority < pod.priority:
                self._cache.forget_nomination(other.uid)
                await self._patch_status(other, {"nominatedNodeName": None})

    async def _patch_status(self, pod: PodFacts, status: Json) -> None:
        meta = pod.pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self._client.patch(
                PODS, meta["namespace"], meta["name"], body, subresource="status", content_type=STRATEGIC
            )
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise
