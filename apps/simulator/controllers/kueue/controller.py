"""Brings Workloads, Jobs and the queues' status in order, again and again, where Kueue's kinds are served.

Not here: who has quota (admitting).
"""

from __future__ import annotations

from typing import Any

from apps.simulator.client import JOBS, PRIORITY_CLASSES, ApiError, Resource
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.kueue.admitting import (
    Assigned,
    Books,
    count_workloads,
    is_reserving,
    is_waiting,
    rank_of,
)
from apps.simulator.controllers.objects import (
    is_true,
    key_of,
    labels_of,
    make_condition,
    reference_to,
    uid_of,
    with_condition,
)

Json = dict[str, Any]
API = "kueue.x-k8s.io/v1beta1"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CLUSTER_QUEUES = Resource("clusterqueues", "ClusterQueue", API, namespaced=False)
LOCAL_QUEUES = Resource("localqueues", "LocalQueue", API)
FLAVORS = Resource("resourceflavors", "ResourceFlavor", API, namespaced=False)
WORKLOADS = Resource("workloads", "Workload", API)
DEFINITIONS = Resource(
    "customresourcedefinitions", "CustomResourceDefinition", "apiextensions.k8s.io/v1", namespaced=False
)
EVERYTHING = "all"


class Kueue(Controller):
    """One key: all queues are looked at together, since cohorts share."""

    name = "kueue"
    workers = 1
    tick_seconds = 0.5

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = context.informers.store(JOBS)
        self.classes = context.informers.store(PRIORITY_CLASSES)
        self.definitions = context.informers.store(DEFINITIONS)

    @property
    def is_installed(self) -> bool:
        return f"{WORKLOADS.plural}.kueue.x-k8s.io" in self.definitions.objects

    async def run(self) -> None:
        self.jobs.subscribe(self._on_job)
        await super().run()

    def _on_job(self, change: Change) -> None:
        if self.is_installed and QUEUE_LABEL in labels_of(change.object):
            self.enqueue(EVERYTHING)

    async def tick(self) -> None:
        """Quotas and stop policies change without a Job."""
        if self.is_installed:
            self.enqueue(EVERYTHING)

    async def sync(self, key: str) -> None:
        queues, _ = await self.client.list(CLUSTER_QUEUES)
        entrances, _ = await self.client.list(LOCAL_QUEUES)
        flavors, _ = await self.client.list(FLAVORS)
        workloads, _ = await self.client.list(WORKLOADS)
        jobs = {uid_of(job): job for job in self.jobs.objects.values() if QUEUE_LABEL in labels_of(job)}
        known = {one["ownerReferences"][0]["uid"] for one in (w["metadata"] for w in workloads)}
        for uid, each in jobs.items():
            if uid not in known and not _is_over(each):
                await self._create_workload(each)
        books = Books(queues, workloads, (one["metadata"]["name"] for one in flavors))
        behind = {key_of(one): one for one in entrances}
        for workload in workloads:
            job = jobs.get(workload["metadata"]["ownerReferences"][0]["uid"])
            if job is not None and _is_over(job) and not is_true(workload, "Finished"):
                await self._write(
                    workload, {}, make_condition("Finished", "True", "Succeeded", "Job finished")
                )
            elif job is not None:
                await self._let_run(job, is_reserving(workload))
        await self._admit(books, behind, [one for one in workloads if is_waiting(one)])
        for queue in queues:
            await self._write_queue(books, queue, behind, workloads)

    async def _admit(self, books: Books, entrances: dict[str, Json], waiting: list[Json]) -> None:
        held_back: set[str] = set()
        for workload in sorted(waiting, key=rank_of):
            namespace, wanted = workload["metadata"]["namespace"], workload["spec"].get("queueName")
            entrance = entrances.get(f"{namespace}/{wanted}")
            name = entrance["spec"]["clusterQueue"] if entrance else ""
            if name not in books.queues:
                missing = "ClusterQueue" if entrance else "LocalQueue"
                await self._refuse(workload, "Inadmissible", f"{missing} {name or wanted} doesn't exist")
            elif entrance and entrance["spec"].get("stopPolicy", "None") != "None":
                await self._refuse(workload, "Inadmissible", f"LocalQueue {wanted} is stopped")
            elif books.why_inactive(name)[0]:
                await self._refuse(workload, "Inadmissible", f"ClusterQueue {name} is inactive")
            elif name not in held_back:
                assigned, why = books.assign(name, workload)
                if assigned is None:
                    await self._refuse(workload, "Pending", why)
                    is_strict = books.queues[name]["spec"].get("queueingStrategy") == "StrictFIFO"
                    held_back |= {name} if is_strict else set()
                else:
                    books.take(name, assigned)
                    await self._grant(workload, name, assigned)

    async def _create_workload(self, job: Json) -> None:
        template, meta = job["spec"]["template"], job["metadata"]
        named = template["spec"].get("priorityClassName", "")
        priority = (self.classes.get(named) or {}).get("value", 0)
        spec = {
            "queueName": labels_of(job)[QUEUE_LABEL],
            "priority": priority,
            "active": True,
            "podSets": [{"name": "main", "count": job["spec"].get("parallelism", 1), "template": template}],
        } | (
            {"priorityClassName": named, "priorityClassSource": "scheduling.k8s.io/priorityclass"}
            if named
            else {}
        )
        body = {"metadata": {"name": f"job-{meta['name']}", "ownerReferences": [reference_to(job, JOBS)]}}
        try:
            await self.client.create(WORKLOADS, meta["namespace"], {**body, "spec": spec})
        except ApiError as error:
            if error.status != 409:
                raise

    async def _let_run(self, job: Json, is_admitted: bool) -> None:
        if bool(job["spec"].get("suspend")) is not is_admitted or _is_over(job):
            return
        meta = job["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "spec": {"suspend": not is_admitted}}
        await self.client.patch(JOBS, meta["namespace"], meta["name"], body)

    async def _grant(self, workload: Json, queue: str, assigned: Assigned) -> None:
        counts = {one["name"]: one["count"] for one in workload["spec"]["podSets"]}
        assignments = [
            {
                "name": name,
                "flavors": assigned.flavors.get(name, {}),
                "resourceUsage": {
                    resource: f"{amount}m" if resource == "cpu" else str(amount)
                    for resource, amount in assigned.usage.get(name, {}).items()
                },
                "count": count,
            }
            for name, count in counts.items()
        ]
        await self._write(
            workload,
            {"admission": {"clusterQueue": queue, "podSetAssignments": assignments}},
            make_condition(
                "QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {queue}"
            ),
            make_condition("Admitted", "True", "Admitted", "The workload is admitted"),
        )

    async def _refuse(self, workload: Json, reason: str, message: str) -> None:
        await self._write(workload, {}, make_condition("QuotaReserved", "False", reason, message))

    async def _write(self, workload: Json, status: Json, *conditions: Json) -> None:
        known = (workload.get("status") or {}).get("conditions") or []
        changed = known
        for one in conditions:
            changed = with_condition(changed, one)
        if changed == known and not status:
            return
        meta = workload["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": {**status, "conditions": changed}}
        await self.client.patch(WORKLOADS, meta["namespace"], meta["name"], body, subresource="status")

    async def _write_queue(
        self, books: Books, queue: Json, entrances: dict[str, Json], workloads: list[Json]
    ) -> None:
        name = queue["metadata"]["name"]
        mine = [key for key, one in entrances.items() if one["spec"]["clusterQueue"] == name]
        waiting, reserving, admitted = count_workloads(workloads, mine)
        reason, message = books.why_inactive(name)
        active = make_condition(
            "Active", "False" if reason else "True", reason or "Ready", message or "Can admit"
        )
        known = queue.get("status") or {}
        usage = _usage_of(books, name)
        status = {
            "conditions": with_condition(known.get("conditions"), active),
            "flavorsReservation": usage,
            "flavorsUsage": usage,
            "pendingWorkloads": waiting,
            "reservingWorkloads": reserving,
            "admittedWorkloads": admitted,
        }
        if status != known:
            body = {"metadata": {"uid": uid_of(queue)}, "status": status}
            await self.client.patch(CLUSTER_QUEUES, "", name, body, subresource="status")


def _usage_of(books: Books, name: str) -> list[Json]:
    found: list[Json] = []
    for group in books.queues[name]["spec"].get("resourceGroups") or []:
        for flavor in group["flavors"]:
            parts = []
            for one in flavor["resources"]:
                used = books.used[name][flavor["name"], one["name"]]
                total = f"{used}m" if one["name"] == "cpu" else str(used)
                parts.append({"name": one["name"], "total": total})
            found.append({"name": flavor["name"], "resources": parts})
    return found


def _is_over(job: Json) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")
