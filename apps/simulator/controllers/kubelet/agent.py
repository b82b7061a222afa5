"""One node's kubelet: takes pods that are bound to it, runs them, ends them.

Not here: heartbeats of the whole fleet (fleet) and the choice of devices (devices).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from apps.simulator.client import NODES, PODS, STRATEGIC, ApiError
from apps.simulator.controllers.controller import QUIET_ERRORS, Context
from apps.simulator.controllers.kubelet.devices import DevicesUnavailable
from apps.simulator.controllers.kubelet.gpu_stack import GpuStack
from apps.simulator.controllers.kubelet.reports import (
    finished_status,
    node_status,
    rejected_status,
    running_status,
)
from apps.simulator.controllers.kubelet.rules import find_lacking, read_seconds
from apps.simulator.controllers.objects import (
    annotations_of,
    is_terminal,
    is_terminating,
    phase_of,
    uid_of,
)
from apps.simulator.controllers.pace import from_text, now, to_micro_text

Json = dict[str, Any]
log = logging.getLogger(__name__)

STOPPED_ANNOTATION = "sim.gpu.internal/kubelet"
CHECKPOINT_REQUESTED = "defrag.gpu.internal/checkpoint-requested"
CHECKPOINT_DONE = "defrag.gpu.internal/checkpoint-done"
# KAI's stand-ins for shared devices: the pods that share one are its holders.
_RESERVATIONS = "kai-resource-reservation"
_DEFAULT_START_SECONDS = 2.0
_DEFAULT_STOP_SECONDS = 0.5
_KILLED = 143
Work = Callable[[], Awaitable[None]]


@dataclass
class PodRun:
    """A pod that this kubelet has taken. stopping: seconds of grace it is being ended with."""

    pod: Json
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    stopping: bool = False
    checkpoint: str = ""


class NodeAgent:
    def __init__(self, context: Context, node: Json) -> None:
        self.context = context
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.stack = GpuStack(node, context.pace)
        self.ledger = self.stack.ledger
        self.stopped = annotations_of(node).get(STOPPED_ANNOTATION) == "stopped"
        self._runs: dict[str, PodRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._holders_timer: asyncio.TimerHandle | None = None
        self._report_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        for timer in (self._holders_timer, self._report_timer):
            if timer:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    # --- the node itself ---

    def on_node(self, node: Json) -> None:
        """The node object changed: a fault may have been put on it or taken off."""
        self.node = node
        has_news = self.stack.on_node(node)
        was_stopped = self.stopped
        self.stopped = annotations_of(node).get(STOPPED_ANNOTATION) == "stopped"
        if was_stopped and not self.stopped:
            self._spawn(self.report)
            for pod in self.context.informers.store(PODS).select("node", self.name):
                self.on_pod(pod)
        elif has_news and not self.stopped:
            self._report_devices()

    def _report_devices(self) -> None:
        """Now, and once more when the kubelet forgets the devices of a plugin that went away."""
        self._spawn(self.report)
        if self._report_timer:
            self._report_timer.cancel()
        again = self.stack.grace_seconds + 0.05
        self._report_timer = asyncio.get_running_loop().call_later(again, lambda: self._spawn(self.report))

    async def report(self) -> None:
        """Labels, annotations and status in two writes; writes that change nothing cost nothing."""
        meta: Json = {"labels": self.stack.labels(), "annotations": self.stack.annotations()}
        client = self.context.client
        await client.patch(NODES, "", self.name, {"metadata": meta})
        hardware = self.stack.setup.hardware if self.stack.setup else None
        status = node_status(self.node, hardware, self.stack.offered())
        await client.patch(
            NODES, "", self.name, {"status": status}, subresource="status", content_type=STRATEGIC
        )

    def _announce_holders(self) -> None:
        """Soon, so that several changes at once become one write."""
        if self._holders_timer is None:
            loop = asyncio.get_running_loop()
            self._holders_timer = loop.call_later(0.03, lambda: self._spawn(self._write_holders))

    async def _write_holders(self) -> None:
        self._holders_timer = None
        body = {"metadata": {"annotations": self.stack.holders()}}
        await self.context.client.patch(NODES, "", self.name, body)

    # --- pods ---

    def on_pod(self, pod: Json) -> None:
        if self.stopped:
            return
        uid = uid_of(pod)
        run = self._runs.get(uid)
        if run is None:
            run = self._take(pod)
        run.pod = pod
        if self.stack.on_pod(pod):
            self._report_devices()
        if is_terminal(pod):
            self._release(uid)
        if is_terminating(pod) and not run.stopping:
            run.stopping = True
            self._replace_task(run, lambda: self._stop(run))
        elif not run.stopping:
            self._answer_checkpoint(run)

    def on_pod_gone(self, uid: str) -> None:
        run = self._runs.pop(uid, None)
        if run:
            for task in run.tasks:
                task.cancel()
        if self.stack.on_pod_gone(uid):
            self._report_devices()
        self._release(uid)

    def _take(self, pod: Json) -> PodRun:
        run = self._runs[uid_of(pod)] = PodRun(pod)
        if is_terminal(pod) or is_terminating(pod):
            return run
        refusal = self._admit(pod)
        if refusal:
            self._replace_task(run, lambda: self._write_status(run, refusal))
        else:
            self._replace_task(run, lambda: self._live(run))
        return run

    def _admit(self, pod: Json) -> Json | None:
        """Gives the pod its devices, or answers with the status that rejects it."""
        lacking = find_lacking(self.node, self._pods()) if phase_of(pod) == "Pending" else ""
        if lacking:
            return rejected_status(f"OutOf{lacking}", f"Node didn't have enough resource: {lacking}")
        try:
            reserves = pod["metadata"]["namespace"] == _RESERVATIONS
            if reserves or not self.ledger or self.ledger.holds(uid_of(pod)):
                return None
            if self.ledger.allocate(pod):
                self._announce_holders()
        except DevicesUnavailable as error:
            if phase_of(pod) == "Running":
                log.warning("%s runs on %s without devices: %s", pod["metadata"]["name"], self.name, error)
                return None
            return rejected_status("UnexpectedAdmissionError", str(error))
        return None

    def _pods(self) -> list[Json]:
        return [run.pod for run in self._runs.values()]

    def _release(self, uid: str) -> None:
        if self.ledger and self.ledger.release(uid):
            self._announce_holders()

    async def _live(self, run: PodRun) -> None:
        """From bound to running, and for a pod that ends by itself to its end."""
        if phase_of(run.pod) == "Pending":
            await self._sleep(run, "start-seconds", _DEFAULT_START_SECONDS)
            await self._write_status(run, running_status(run.pod))
        ends = annotations_of(run.pod).get("sim.gpu.internal/run-seconds")
        if ends and run.pod["spec"].get("restartPolicy") != "Always":
            await self._sleep(run, "run-seconds", 0.0)
            code = int(annotations_of(run.pod).get("sim.gpu.internal/exit-code", "0"))
            reason = "Completed" if code == 0 else "Error"
            await self._write_status(run, finished_status(run.pod, exit_code=code, reason=reason))

    async def _stop(self, run: PodRun) -> None:
        """SIGTERM, the stop time within the grace, then the object goes."""
        meta = run.pod["metadata"]
        if not is_terminal(run.pod):
            grace = float(meta.get("deletionGracePeriodSeconds") or 0)
            wanted = read_seconds(run.pod, "stop-seconds", _DEFAULT_STOP_SECONDS)
            await asyncio.sleep(self.context.pace.seconds(min(wanted, grace)))
            status = finished_status(run.pod, exit_code=_KILLED, reason="Error")
            await self._write_status(run, status)
            self._release(meta["uid"])
        await self._insist(
            lambda: self.context.client.delete(
                PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace_seconds=0
            )
        )

    def _answer_checkpoint(self, run: PodRun) -> None:
        """A workload that can save its state does so when asked, once per request."""
        annotations = annotations_of(run.pod)
        wanted = annotations.get(CHECKPOINT_REQUESTED, "")
        if not wanted or wanted == run.checkpoint or "sim.gpu.internal/checkpoint-seconds" not in annotations:
            return
        asked, done = from_text(wanted), from_text(annotations.get(CHECKPOINT_DONE))
        if asked and done and done >= asked:
            return
        run.checkpoint = wanted
        self._spawn_for(run, lambda: self._save_checkpoint(run))

    async def _save_checkpoint(self, run: PodRun) -> None:
        await self._sleep(run, "checkpoint-seconds", 1.0)
        meta = run.pod["metadata"]
        body = {"metadata": {"annotations": {CHECKPOINT_DONE: to_micro_text(now())}}}
        await self.context.client.patch(PODS, meta["namespace"], meta["name"], body)

    # --- doing it ---

    async def _sleep(self, run: PodRun, what: str, default: float) -> None:
        await asyncio.sleep(self.context.pace.seconds(read_seconds(run.pod, what, default)))

    async def _write_status(self, run: PodRun, status: Json) -> None:
        meta = run.pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        await self._insist(
            lambda: self.context.client.patch(
                PODS, meta["namespace"], meta["name"], body, subresource="status", content_type=STRATEGIC
            )
        )

    async def _insist(self, call: Callable[[], Awaitable[Json]]) -> None:
        """A kubelet outlives its API server: it repeats until it gets a real answer."""
        delay = 0.1
        while True:
            try:
                await call()
                return
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
