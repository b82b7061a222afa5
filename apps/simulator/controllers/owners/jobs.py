"""The Job controller: runs pods to completion, counts each ended pod once, backs off after failures.

Every pod carries the tracking finalizer until it is counted, as in a real cluster. The rules are
in job_rules.
"""

from __future__ import annotations

import asyncio
from typing import Any

from apps.simulator.client import JOBS, PODS, ApiError
from apps.simulator.controllers.controller import Context
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import (
    annotations_of,
    condition_of,
    controller_of,
    is_active,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    labels_of,
    make_condition,
    phase_of,
    uid_of,
    with_condition,
)
from apps.simulator.controllers.owners.job_rules import (
    TRACKING,
    action_for,
    backoff_seconds,
    is_complete,
    is_failed,
    is_finished,
    replaces_only_failed,
    wanted_pods,
)
from apps.simulator.controllers.owners.pod_owner import PodOwner, make_pod
from apps.simulator.controllers.pace import now, to_text

Json = dict[str, Any]

# Marks the key of a pod that was set free from its Job (not of a Job).
_ORPHAN = "orphan:"
_INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs(PodOwner):
    name = "job"
    resource = JOBS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._written: dict[str, Json] = {}
        self._streaks: dict[str, tuple[int, float]] = {}
        self._counted: dict[str, set[str]] = {}

    async def sync(self, key: str) -> None:
        if key.startswith(_ORPHAN):
            pod = self.pods.get(key.removeprefix(_ORPHAN))
            if pod and controller_of(pod) is None:
                await self._strip_tracking(pod)
            return
        known = self.owners.get(key)
        if known is None:
            await self._free_dependents(key)
            return
        job = self._newest(known)
        pods = self.pods_of(job)
        succeeded, failed, verdict = await self._count_ended(job, pods)
        active = [pod for pod in pods if is_active(pod)]
        await self._free_counted(job, pods)
        if is_finished(job) or is_terminating(job):
            return
        finish = self._find_end(job, succeeded, failed, len(active), verdict)
        if finish or job["spec"].get("suspend"):
            for pod in active:
                await self.delete_pod(job, pod)
            await self._write(job, [], succeeded, failed, finish)
            return
        active = await self._scale(job, pods, active, succeeded)
        await self._write(job, active, succeeded, failed, None)

    def _newest(self, job: Json) -> Json:
        """The watch may still show a status from before our own last write; counts must not go back."""
        own = self._written.get(uid_of(job))
        if own and int(own["metadata"]["resourceVersion"]) > int(job["metadata"]["resourceVersion"]):
            return own
        return job

    async def _count_ended(self, job: Json, pods: list[Json]) -> tuple[int, int, str]:
        """Adds pods that ended to the status before their finalizer goes: none is counted twice,
        none is lost."""
        status = job.get("status") or {}
        succeeded, failed = status.get("succeeded") or 0, status.get("failed") or 0
        counted = self._counted.setdefault(uid_of(job), set())
        new_failed, new_succeeded, verdict = 0, 0, ""
        fresh: list[str] = []
        for pod in pods:
            uid = uid_of(pod)
            if TRACKING not in (pod["metadata"].get("finalizers") or []) or uid in counted:
                continue
            if phase_of(pod) == "Succeeded":
                new_succeeded += 1
            elif is_failed(job, pod):
                action = action_for(job, pod)
                verdict = verdict or ("FailJob" if action == "FailJob" else "")
                new_failed += action != "Ignore"
            else:
                continue
            fresh.append(uid)
        if fresh:
            body = {
                "metadata": {"uid": uid_of(job)},
                "status": {"succeeded": succeeded + new_succeeded, "failed": failed + new_failed},
            }
            await self._write_counts(job, body)
            counted.update(fresh)
            self._note_streak(job, new_failed, new_succeeded)
        return succeeded + new_succeeded, failed + new_failed, verdict

    def _on_owner(self, change: Change) -> None:
        super()._on_owner(change)
        if change.kind == "DELETED":
            uid = uid_of(change.object)
            self._written.pop(uid, None)
            self._streaks.pop(uid, None)
            self._counted.pop(uid, None)
            self.enqueue(key_of(change.object))

    def _on_pod(self, change: Change) -> None:
        super()._on_pod(change)
        pod = change.object
        tracked = TRACKING in (pod["metadata"].get("finalizers") or [])
        if tracked and controller_of(pod) is None and change.kind != "DELETED":
            self.enqueue(_ORPHAN + key_of(pod))

    def _note_streak(self, job: Json, failed: int, succeeded: int) -> None:
        count, _ = self._streaks.get(uid_of(job), (0, 0.0))
        count = 0 if succeeded else count + failed
        self._streaks[uid_of(job)] = (count, asyncio.get_running_loop().time())

    async def _free_counted(self, job: Json, pods: list[Json]) -> None:
        counted = self._counted.get(uid_of(job), set())
        for pod in pods:
            if uid_of(pod) in counted or (is_finished(job) and is_terminal(pod)):
                await self._strip_tracking(pod)

    async def _strip_tracking(self, pod: Json) -> None:
        meta = pod["metadata"]
        finalizers = meta.get("finalizers") or []
        if TRACKING not in finalizers:
            return
        left = [each for each in finalizers if each != TRACKING]
        body = {"metadata": {"uid": meta["uid"], "finalizers": left or None}}
        try:
            await self.client.patch(PODS, meta["namespace"], meta["name"], body)
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise

    def _find_end(
        self, job: Json, succeeded: int, failed: int, active: int, verdict: str
    ) -> tuple[str, str, str] | None:
        """(condition type, reason, message) when the Job is over."""
        if is_complete(job, succeeded, active):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if verdict == "FailJob":
            return "Failed", "PodFailurePolicy", "A pod failed in a way that fails the job"
        if failed > job["spec"].get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        return None

    async def _scale(self, job: Json, pods: list[Json], active: list[Json], succeeded: int) -> list[Json]:
        wanted = wanted_pods(job, succeeded, len(active))
        terminating = [pod for pod in pods if is_terminating(pod) and not is_terminal(pod)]
        held_back = len(terminating) if replaces_only_failed(job) else 0
        missing = wanted - len(active) - held_back
        if missing < 0 and len(active) > wanted:
            for pod in active[wanted:]:
                await self.delete_pod(job, pod)
            return active[:wanted]
        if missing <= 0:
            return active
        failures, since = self._streaks.get(uid_of(job), (0, 0.0))
        due = since + self.pace.seconds(backoff_seconds(failures))
        left = due - asyncio.get_running_loop().time()
        if failures and left > 0:
            self.enqueue(key_of(job), after=left + 0.005)
            return active
        indexes = self._free_indexes(job, pods, missing)
        for number in range(missing):
            active.append(await self.create_pod(job, self._make(job, indexes[number] if indexes else None)))
        return active

    def _free_indexes(self, job: Json, pods: list[Json], count: int) -> list[int]:
        if job["spec"].get("completionMode") != "Indexed":
            return []
        taken = {
            int(labels_of(pod).get(_INDEX, annotations_of(pod).get(_INDEX, "-1")))
            for pod in pods
            if is_active(pod) or phase_of(pod) == "Succeeded"
        }
        return [index for index in range(job["spec"]["completions"]) if index not in taken][:count]

    def _make(self, job: Json, index: int | None) -> Json:
        name = job["metadata"]["name"]
        prefix = f"{name}-" if index is None else f"{name}-{index}-"
        body = make_pod(job, JOBS, job["spec"]["template"], prefix=prefix)
        meta = body["metadata"]
        meta["labels"] |= {
            "batch.kubernetes.io/controller-uid": uid_of(job),
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid_of(job),
            "job-name": name,
        }
        if index is not None:
            meta["labels"][_INDEX] = str(index)
            meta["annotations"] = {**(meta.get("annotations") or {}), _INDEX: str(index)}
        meta["finalizers"] = [TRACKING]
        return body

    async def _write(
        self, job: Json, active: list[Json], succeeded: int, failed: int, end: tuple[str, str, str] | None
    ) -> None:
        known = job.get("status") or {}
        status: Json = {
            "active": len(active) or None,
            "ready": sum(1 for pod in active if is_ready(pod)),
            "succeeded": succeeded or None,
            "failed": failed or None,
            "startTime": known.get("startTime") or to_text(now()),
        }
        conditions = known.get("conditions") or []
        if end:
            kind, reason, message = end
            status["ready"] = 0
            conditions = with_condition(conditions, make_condition(kind, "True", reason, message))
            if kind == "Complete":
                status["completionTime"] = to_text(now())
        suspended = bool(job["spec"].get("suspend"))
        if suspended or condition_of(job, "Suspended"):
            reason = "JobSuspended" if suspended else "JobResumed"
            state = make_condition("Suspended", str(suspended), reason)
            conditions = with_condition(conditions, state)
        if conditions:
            status["conditions"] = conditions
        await self.write_status(job, status)

    async def _write_counts(self, job: Json, body: Json) -> None:
        meta = job["metadata"]
        self._written[uid_of(job)] = await self.client.patch(
            JOBS, meta["namespace"], meta["name"], body, subresource="status"
        )
        job.setdefault("status", {}).update(body["status"])

    async def _free_dependents(self, key: str) -> None:
        """The Job is gone: its pods must not hang on the finalizer."""
        namespace, _, name = key.partition("/")
        for pod in self.pods.select("namespace", namespace):
            owner = controller_of(pod)
            if owner and owner["kind"] == "Job" and owner["name"] == name:
                await self._strip_tracking(pod)
