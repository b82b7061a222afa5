"""The common shape of a controller: a queue of keys, a few workers, retries with back-off.

Not here: any rule of a particular controller.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass, field

import aiohttp

from apps.simulator.client import ApiError, KubernetesClient
from apps.simulator.controllers.informers import Informers
from apps.simulator.controllers.pace import Pace
from apps.simulator.controllers.scheduler.configuration import SchedulerSettings

log = logging.getLogger(__name__)

QUIET_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass
class Context:
    """What every controller works with. rng: seeded, so that ties fall the same way. scheduler: what a
    KubeSchedulerConfiguration says."""

    client: KubernetesClient
    informers: Informers
    pace: Pace
    rng: random.Random = field(default_factory=lambda: random.Random(20))
    scheduler: SchedulerSettings = SchedulerSettings()


class Controller:
    """Subclasses subscribe in __init__, enqueue keys, and bring one key in order in `sync`."""

    name = "controller"
    workers = 4

    def __init__(self, context: Context) -> None:
        self.context = context
        self.client = context.client
        self.pace = context.pace
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, int] = {}

    def enqueue(self, key: str, after: float = 0.0) -> None:
        """after: real seconds. A key is never worked on twice at the same time."""
        if after > 0:
            asyncio.get_running_loop().call_later(after, self.enqueue, key)
        elif key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    async def sync(self, key: str) -> None:
        raise NotImplementedError

    async def tick(self) -> None:
        """Called every `tick_seconds` when that is above zero."""

    tick_seconds = 0.0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(self._work())
            if self.tick_seconds > 0:
                group.create_task(self._tick_for_ever())

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.tick_seconds)
            try:
                await self.tick()
            except (ApiError, *QUIET_ERRORS) as error:
                log.info("%s: %s", self.name, error)

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self.sync(key)
                self._failures.pop(key, None)
            except ApiError as error:
                self._retry(key, error, quiet=error.status in (404, 409))
            except QUIET_ERRORS as error:
                self._retry(key, error, quiet=True)
            except Exception as error:
                log.exception("%s failed on %s", self.name, key)
                self._retry(key, error, quiet=True)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.enqueue(key)

    def _retry(self, key: str, error: Exception, *, quiet: bool) -> None:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        log.log(logging.DEBUG if quiet else logging.WARNING, "%s on %s: %s", self.name, key, error)
        self.enqueue(key, after=min(0.02 * 2**count, 10.0))
