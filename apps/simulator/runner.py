"""Starts and stops a whole simulated cluster in one event loop: API server and all controllers.

Not here: the command line (management/commands/simulate_cluster).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apps.simulator.api_server.server import ApiServer
from apps.simulator.client import KubernetesClient
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.disruption import DisruptionController
from apps.simulator.controllers.gpu_operator.labels import GpuOperator
from apps.simulator.controllers.gpu_operator.mig_manager import MigManagers
from apps.simulator.controllers.informers import Informers
from apps.simulator.controllers.kubelet.fleet import KubeletFleet
from apps.simulator.controllers.kueue.controller import Kueue
from apps.simulator.controllers.nodes.lifecycle import NodeLifecycle
from apps.simulator.controllers.nodes.namespaces import NamespaceController
from apps.simulator.controllers.nodes.pod_gc import PodCollector
from apps.simulator.controllers.nodes.service_accounts import ServiceAccounts
from apps.simulator.controllers.nodes.taint_eviction import TaintEviction
from apps.simulator.controllers.owners.daemonsets import DaemonSets
from apps.simulator.controllers.owners.deployments import Deployments
from apps.simulator.controllers.owners.garbage import GarbageCollector
from apps.simulator.controllers.owners.jobs import Jobs
from apps.simulator.controllers.owners.replicasets import ReplicaSets
from apps.simulator.controllers.owners.statefulsets import StatefulSets
from apps.simulator.controllers.pace import Pace
from apps.simulator.controllers.scheduler.configuration import SchedulerSettings
from apps.simulator.controllers.scheduler.scheduler import Scheduler
from apps.simulator.machine_faults import MachineFaults

Json = dict[str, Any]
log = logging.getLogger(__name__)

_PROGRAMS = (
    KubeletFleet,
    Scheduler,
    Deployments,
    ReplicaSets,
    StatefulSets,
    Jobs,
    Kueue,
    DaemonSets,
    GarbageCollector,
    DisruptionController,
    NodeLifecycle,
    TaintEviction,
    PodCollector,
    NamespaceController,
    ServiceAccounts,
    GpuOperator,
    MigManagers,
)


class ControlPlane:
    """Controllers against one API server, simulated or real.

    programs: which ones; all of them unless the server has controllers of its own.
    """

    def __init__(
        self,
        client: KubernetesClient,
        *,
        time_scale: float = 1.0,
        seed: int = 20,
        programs: Iterable[Any] = _PROGRAMS,
        scheduler: SchedulerSettings | None = None,
    ) -> None:
        self._client = client
        self._programs = tuple(programs)
        self._time_scale = time_scale
        self._seed = seed
        self._scheduler = scheduler or SchedulerSettings()
        self._task: asyncio.Task[None] | None = None
        self.context: Context | None = None

    async def start(self) -> None:
        """Returns when all caches are filled and the programs run."""
        await self._client.__aenter__()
        informers = Informers(self._client)
        pace, rng = Pace(self._time_scale), random.Random(self._seed)
        self.context = Context(self._client, informers, pace, rng, self._scheduler)
        programs = [program(self.context) for program in self._programs]
        started = asyncio.Event()
        self._task = asyncio.create_task(self._run(programs, informers, started))
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task

    async def _run(self, programs: list[Any], informers: Informers, started: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            await informers.wait_synced()
            for program in programs:
                group.create_task(program.run())
            started.set()

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.__aexit__(None, None, None)


class SimulatedCluster:
    """An API server with a scene and the controllers that keep it alive."""

    def __init__(
        self,
        objects: Iterable[Json],
        *,
        port: int = 0,
        token: str = "admin-token",
        time_scale: float = 1.0,
        seed: int = 20,
        host: str = "127.0.0.1",
        advertised: str = "",
        scheduler: SchedulerSettings | None = None,
    ) -> None:
        self.server = ApiServer(port=port, token=token, host=host, advertised=advertised)
        self.server.seed(objects)
        self._time_scale = time_scale
        self._seed = seed
        self._scheduler = scheduler
        self.control_plane: ControlPlane | None = None
        self.machine_faults: MachineFaults | None = None

    @property
    def url(self) -> str:
        return self.server.url

    async def start(self) -> None:
        await self.server.start()
        client = KubernetesClient(server=self.server.url, ca_pem=self.server.ca_pem, token=self.server.token)
        self.control_plane = ControlPlane(
            client, time_scale=self._time_scale, seed=self._seed, scheduler=self._scheduler
        )
        await self.control_plane.start()
        assert self.control_plane.context
        self.machine_faults = MachineFaults(client, self.control_plane.context.informers)
        self.server.named_faults = self.machine_faults

    async def stop(self) -> None:
        if self.control_plane:
            await self.control_plane.stop()
        await self.server.stop()

    async def __aenter__(self) -> SimulatedCluster:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()


def write_private(path: Path, text: str) -> None:
    """0600 from the first byte: a kubeconfig holds a token."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.fchmod(handle, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
