"""What a kubelet has under way: one set of tasks per pod, calls repeated until the API server answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.client import ApiError
from apps.simulator.controllers.controller import QUIET_ERRORS

Json = dict[str, Any]
log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


@dataclass
class PodRun:
    """A pod that this kubelet has taken. stopping: seconds of grace it is being ended with."""

    pod: Json
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    stopping: bool = False
    checkpoint: str = ""


class PodTasks:
    """name: of the node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: set[asyncio.Task[None]] = set()

    def cancel_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _insist(self, call: Callable[[], Awaitable[Json]]) -> Json:
        """A kubelet outlives its API server: it repeats until it gets a real answer."""
        delay = 0.1
        while True:
            try:
                return await call()
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
            except QUIET_ERRORS as error:
                log.info("kubelet of %s waits for the API server: %s", self.name, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 5.0)

    def _replace_task(self, run: PodRun, work: Work) -> None:
        for task in run.tasks:
            task.cancel()
        run.tasks.clear()
        self._spawn_for(run, work)

    def _spawn_for(self, run: PodRun, work: Work) -> None:
        task = self._spawn(work)
        run.tasks.add(task)
        task.add_done_callback(run.tasks.discard)

    def _spawn(self, work: Work) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Work) -> None:
        try:
            await work()
        except ApiError as error:
            if error.status not in (404, 409, 422):
                log.warning("kubelet of %s: %s", self.name, error)
        except QUIET_ERRORS as error:
            log.warning("kubelet of %s lost the API server: %s", self.name, error)
