"""One node's kubelet: takes pods that are bound to it, runs them, ends them.

Not here: heartbeats of the whole fleet (fleet) and the choice of devices (devices).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from apps.simulator.client import NODES, PODS, STRATEGIC
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.kubelet.devices import DevicesUnavailable
from apps.simulator.controllers.kubelet.gpu_stack import GpuStack
from apps.simulator.controllers.kubelet.reboot import (
    DOWN_SECONDS,
    device_refusal,
    new_boot,
    notes_after,
    restarted,
    waiting_again,
    wants_reboot,
)
from apps.simulator.controllers.kubelet.reports import (
    finished_status,
    node_status,
    rejected_status,
    running_status,
)
from apps.simulator.controllers.kubelet.rules import find_lacking, is_hung, read_seconds
from apps.simulator.controllers.kubelet.tasks import PodRun, PodTasks
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


class NodeAgent(PodTasks):
    def __init__(self, context: Context, node: Json) -> None:
        super().__init__(node["metadata"]["name"])
        self.context = context
        self.node = node
        self.stack = GpuStack(node, context.pace)
        self.ledger = self.stack.ledger
        self.stopped = annotations_of(node).get(STOPPED_ANNOTATION) == "stopped"
        self._is_rebooting = False
        self._runs: dict[str, PodRun] = {}
        self._holders_timer: asyncio.TimerHandle | None = None
        self._report_timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        for timer in (self._holders_timer, self._report_timer):
            if timer:
                timer.cancel()
        self.cancel_tasks()

    # --- the node itself ---

    def on_node(self, node: Json) -> None:
        """The node object changed: a fault may have been put on it or taken off."""
        self.node = node
        has_news = self.stack.on_node(node)
        was_stopped = self.stopped
        if wants_reboot(node) and not self._is_rebooting:
            self._is_rebooting = True
            self._spawn(self._reboot)
        self.stopped = self._is_rebooting or annotations_of(node).get(STOPPED_ANNOTATION) == "stopped"
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

    async def _reboot(self) -> None:
        for run in self._runs.values():
            for task in run.tasks:
                task.cancel()
        self.stack.on_reboot()
        await asyncio.sleep(self.context.pace.seconds(DOWN_SECONDS))
        patch = partial(self.context.client.patch, NODES, "", self.name)
        body = {"metadata": {"annotations": notes_after(self.stack.setup)}}
        try:
            await self._insist(lambda: patch(new_boot(), subresource="status", content_type=STRATEGIC))
            node = await self._insist(lambda: patch(body))
        finally:
            self._is_rebooting = False  # one that failed is begun again: the annotation still asks for it
        self.on_node(node)
        for run in list(self._runs.values()):
            self._start_again(run)

    def _start_again(self, run: PodRun) -> None:
        if is_terminal(run.pod):
            return
        if is_terminating(run.pod):
            self._replace_task(run, lambda: self._stop(run))
        elif self.ledger and self.ledger.holds(uid_of(run.pod)):
            self._release(uid_of(run.pod))
            resource = self.ledger.hardware.model.resource
            self._replace_task(run, lambda: self._write_status(run, device_refusal(resource)))
        elif phase_of(run.pod) == "Pending":
            self._replace_task(run, lambda: self._live(run))
        else:
            self._replace_task(run, lambda: self._restart(run))

    async def _restart(self, run: PodRun) -> None:
        after = restarted(run.pod)
        await self._write_status(run, waiting_again(run.pod))
        await self._sleep(run, "start-seconds", _DEFAULT_START_SECONDS)
        await self._write_status(run, after)

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
            while is_hung(self.node, run.pod):
                await asyncio.sleep(max(0.02, self.context.pace.seconds(1.0)))
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
